//! What is left of the demo, as the kernel shows it: nothing here asks Ostler.

use ostler_keeper::tree;

use super::stage::MARK;

/// The processes that carry the demo's mark, and those below this process, which is where orphans of keepers come.
pub(super) fn processes(mark: &str) -> Vec<i32> {
    let own = std::process::id() as i32;
    let below = tree::descendants(own).unwrap_or_default().into_iter().map(|(pid, _)| pid);
    let mut found: Vec<i32> = marked(mark).chain(below).filter(|pid| *pid != own).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A process that went while it was looked at is not left.
fn marked(mark: &str) -> impl Iterator<Item = i32> {
    let wanted = format!("{MARK}={mark}");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()).then_some(pid)
    })
}

/// What there is to say of them.
pub(super) fn said(left: &[i32]) -> String {
    match left {
        [] => "left behind: 0 processes, as the kernel shows them".to_owned(),
        _ => format!("left behind: {}: {left:?}", counted(left.len())),
    }
}

/// So many processes, in words.
pub(super) fn counted(processes: usize) -> String {
    match processes {
        1 => "1 process".to_owned(),
        many => format!("{many} processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn one_process_is_one() {
        assert_eq!(said(&[]), "left behind: 0 processes, as the kernel shows them");
        assert_eq!(said(&[7]), "left behind: 1 process: [7]");
        assert_eq!(said(&[7, 9]), "left behind: 2 processes: [7, 9]");
    }
}
