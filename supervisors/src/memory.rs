//! What the kernel says of the machine's memory.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::machines::admission::{Reading, Share};

/// The most that is read of either file; they are a few hundred bytes.
const MOST: u64 = 64 << 10;

/// Where it says so: a folder with the files `meminfo` and `pressure/memory`, as in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySource {
    folder: PathBuf,
}

impl MemorySource {
    /// The source in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// What it says now. Both files are the kernel's memory: nothing waits for a disk.
    pub fn read(&self) -> Reading {
        Reading {
            available: self.text("meminfo").as_deref().and_then(available),
            stalled: self.text("pressure/memory").as_deref().and_then(stalled),
        }
    }

    /// A kernel may have no word for pressure, or refuse to say it: then that is not known.
    fn text(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        File::open(self.folder.join(name)).ok()?.take(MOST).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// `MemAvailable:   23492000 kB`
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `full avg10=0.12 avg60=… avg300=… total=…`. The line of `some` rises with every busy disk.
fn stalled(pressure: &str) -> Option<Share> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let mean = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, hundredths) = mean.split_once('.')?;
    let digits = hundredths.len() == 2 && hundredths.bytes().all(|byte| byte.is_ascii_digit());
    let hundredths: u32 = hundredths.parse().ok().filter(|_| digits)?;
    let whole: u32 = whole.parse().ok().filter(|whole| *whole <= 100)?;
    Some(Share(whole * 100 + hundredths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_words_are_understood_and_others_are_nothing() {
        let text = "MemTotal:       24683692 kB\nMemFree:  1 kB\nMemAvailable:   23492000 kB\nBuffers: 2 kB\n";
        assert_eq!(available(text), Some(23_492_000 << 10));
        let text =
            "some avg10=99.00 avg60=0.19 avg300=0.62 total=40714529\nfull avg10=12.05 avg60=0.03 avg300=0.12 total=1\n";
        assert_eq!(stalled(text), Some(Share(1205)));
        for other in
            ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 1", "MemAvailable: 18446744073709551615 kB"]
        {
            assert_eq!(available(other), None, "{other}");
        }
        for other in [
            "",
            "full",
            "full avg10=",
            "full avg10=1",
            "full avg10=1.5",
            "full avg10=101.00",
            "full avg10=-1.00",
            "full avg10=1.+5",
            "some avg10=1.00",
        ] {
            assert_eq!(stalled(other), None, "{other}");
        }
    }

    #[test]
    fn this_machine_says_how_much_is_left() {
        assert!(MemorySource::new("/proc".into()).read().available.is_some_and(|bytes| bytes > 0));
        assert_eq!(MemorySource::new("/no/such/folder".into()).read(), Reading::default());
    }
}
