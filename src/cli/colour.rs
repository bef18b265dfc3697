//! Whether there is colour: as `--color` says, else on a terminal only, and where neither `NO_COLOR` nor `TERM=dumb` is
//! set. A dumb terminal has none anywhere: the library would colour it where `CI` is set.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

/// What `--color` says holds for the whole process.
pub(super) fn choose(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
        clap::ColorChoice::Auto if is_dumb() => ColorChoice::Never,
        clap::ColorChoice::Auto => ColorChoice::Auto,
    };
    choice.write_global();
}

/// Whether the terminal knows no control sequences, as `TERM` says.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Whether a stream gets colour.
pub(super) fn wanted(stream: &impl RawStream) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
}

/// A text of standard output in bold.
pub(super) fn bold(text: &str) -> String {
    match wanted(&std::io::stdout()) {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}
