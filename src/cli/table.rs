//! Aligned columns.

/// Rows as lines, each column as wide as its widest cell.
pub(super) fn lines(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heads: Vec<String> = heads.iter().map(|head| head.to_uppercase()).collect();
    std::iter::once(&heads).chain(rows).map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// How long ago, in one unit.
pub(super) fn age(created_ms: u64) -> String {
    let seconds = ostler_supervisors::clock::wall_ms().saturating_sub(created_ms) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A text without control sequences: what an agent prints must not move anybody's cursor.
pub(super) fn plain(text: &str) -> String {
    let visible = |character: &char| !character.is_control() || matches!(character, '\n' | '\t');
    anstream::adapter::strip_str(text).to_string().chars().filter(visible).collect()
}

/// The first line of a text, cut to this many characters.
pub(super) fn brief(text: &str, most: usize) -> String {
    let line = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_aligned_and_texts_are_cut_at_characters() {
        let rows = vec![vec!["a".to_owned(), "é".to_owned()], vec!["long".to_owned(), "x".to_owned()]];
        assert_eq!(super::lines(&["id", "v"], &rows), ["ID    V", "a     é", "long  x"]);
        assert_eq!(super::brief("éèà\n ç", 4), "éèà …");
    }

    #[test]
    fn a_text_is_cut_at_every_length_without_a_panic() {
        let text = "a\u{e9}\u{20ac}\u{1F600}".repeat(3);
        for most in 0..=13 {
            let expected: String = text.chars().take(most).collect();
            let mark = if most < 12 { "…" } else { "" };
            assert_eq!(super::brief(&text, most), format!("{expected}{mark}"));
        }
    }
}
