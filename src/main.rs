//! The `ostler` program. It can play the keeper and the scripted agent as well, so that one file is enough.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("play-keeper") if std::env::args().nth(2).is_some_and(|word| word == "helper") => {
            ostler_keeper::helper::main(std::env::args_os().skip(3))
        }
        Some("play-keeper") => ostler_keeper::main(),
        Some("play-agent") => ostler_agent::main(arguments.collect()),
        _ => ostler::cli::main(),
    }
}
