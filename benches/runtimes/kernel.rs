//! What the kernel says of processes.

/// Proportional set size: what is shared counts once over all.
pub(crate) fn pss_kib(pids: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter().map(of).sum()
}

/// User and system time so far, in hundredths of a second.
pub(crate) fn ticks(pids: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
            .unwrap_or_default();
        fields.get(11).zip(fields.get(12)).map_or(0, |(user, system)| user + system)
    };
    pids.iter().map(of).sum()
}
