//! Aligned columns, cut to the width of a terminal; elsewhere whole.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::colour;

/// No column but for want of place gets narrower.
const NARROW: usize = 8;

/// How much place a line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// So many columns of a terminal.
    Columns(usize),
    /// Any: a program reads it.
    Whole,
}

impl Fit {
    /// That of a stream.
    pub(super) fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let size = stream.is_terminal().then(|| terminal_size::terminal_size_of(stream)).flatten();
        match size {
            Some((terminal_size::Width(columns), _)) if columns > 0 => Self::Columns(columns.into()),
            _ => Self::Whole,
        }
    }

    /// A line that has its place.
    pub(super) fn line(self, line: &str) -> String {
        match self {
            Self::Columns(most) => cut(line, most),
            Self::Whole => line.to_owned(),
        }
    }
}

/// Rows as lines for standard output.
pub(super) fn lines(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut lines = fitted(heads, rows, Fit::of(&std::io::stdout()));
    if let Some(heads) = lines.first_mut() {
        *heads = colour::bold(heads);
    }
    lines
}

/// Rows as lines, each column as wide as its widest cell, or as there is place for.
fn fitted(heads: &[&str], rows: &[Vec<String>], fit: Fit) -> Vec<String> {
    let heads: Vec<String> = heads.iter().map(|head| head.to_uppercase()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    if let Fit::Columns(most) = fit {
        narrow(&mut widths, most);
    }
    std::iter::once(&heads).chain(&rows).map(|row| fit.line(&line(row, &widths))).collect()
}

/// Takes what is too much from the widest columns, and from the first one, which names the row, not at all.
fn narrow(widths: &mut [usize], most: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(most);
    while excess > 0 {
        let widest = widths.iter_mut().skip(1).filter(|width| **width > NARROW).max();
        let Some(widest) = widest else { return };
        *widest -= 1;
        excess -= 1;
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, most)| {
        let cell = cut(cell, *most);
        let rest = most.saturating_sub(width(&cell));
        cell + &" ".repeat(rest)
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

/// How many columns of a terminal a text takes.
fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// A text that takes no more than so many columns; an ellipsis stands for what is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(place) = most.checked_sub(1) else { return String::new() };
    let mut taken = 0;
    let mut kept: String = text
        .graphemes(true)
        .take_while(|grapheme| {
            taken += grapheme.width();
            taken <= place
        })
        .collect();
    kept.push('…');
    kept
}

/// A text that stays in its place: one line, without control characters, and without those that turn the direction of
/// what follows.
pub(super) fn cell(text: &str) -> String {
    let turns = |character: &char| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let space = |character: char| if character.is_whitespace() { ' ' } else { character };
    plain(text).chars().filter(|character| !turns(character)).map(space).collect()
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

/// A text as one line of at most so many columns.
pub(super) fn brief(text: &str, most: usize) -> String {
    cut(&cell(text).split_whitespace().collect::<Vec<_>>().join(" "), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = [row(&["a", "é", "x"]), row(&["long", "漢字", "x"]), row(&["e\u{301}", "", "x"])];
        let expected = ["ID    V     W", "a     é     x", "long  漢字  x", "e\u{301}           x"];
        assert_eq!(fitted(&["id", "v", "w"], &rows, Fit::Whole), expected);
    }

    #[test]
    fn the_widest_column_is_cut_and_the_one_that_names_the_row_is_not() {
        let id = "task_01M8PC2YTJACDE9CTKTB5BPJP2";
        let rows = [row(&[id, "completed", &"word ".repeat(20)])];
        let lines = fitted(&["task", "state", "prompt"], &rows, Fit::Columns(60));
        assert_eq!(lines[1], format!("{id}  completed  word word word …"));
        assert_eq!(fitted(&["task"], &rows, Fit::Columns(10))[1], "task_01M8…");
    }

    #[test]
    fn no_line_is_ever_wider_than_the_terminal_nor_more_than_one() {
        let texts =
            ["漢字漢字漢字漢字漢字", "\u{1b}[31mred\u{1b}[0m\nnext\tone", "a\u{202e}b\rc", "e\u{301}\u{301}", "👩‍👩‍👧‍👦👍🏽🇩🇪"];
        let rows: Vec<_> = texts.iter().map(|text| row(&[text, &text.repeat(9), text])).collect();
        for most in 1..120 {
            for line in fitted(&["first", "second", "third"], &rows, Fit::Columns(most)) {
                assert!(width(&line) <= most, "{most}: {line}");
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
        }
    }

    #[test]
    fn texts_are_cut_between_what_is_seen_as_characters() {
        assert_eq!(brief("éèà\n ç", 4), "éèà…");
        assert_eq!(brief("éèà\n ç", 5), "éèà ç");
        assert_eq!(cut("漢字", 3), "漢…");
        assert_eq!(cut("漢字", 2), "…");
        assert_eq!(cut("e\u{301}e\u{301}e", 2), "e\u{301}…");
        assert_eq!((cut("x", 0), cut("", 0)), (String::new(), String::new()));
    }

    #[test]
    fn a_text_is_cut_at_every_width_without_a_panic() {
        let text = "a\u{e9}\u{20ac}\u{1F600}".repeat(3);
        for most in 0..=16 {
            let shown = brief(&text, most);
            assert!(width(&shown) <= most, "{most}: {shown}");
            assert_eq!(shown.ends_with('…'), (1..15).contains(&most), "{most}: {shown}");
        }
    }
}
