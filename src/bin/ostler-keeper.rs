//! The keeper as a program of its own. What it does is written in the `ostler-keeper` crate.

fn main() -> std::process::ExitCode {
    ostler_keeper::main()
}
