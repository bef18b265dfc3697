//! The scripted agent as a program of its own.

fn main() -> std::process::ExitCode {
    ostler_agent::main(std::env::args().skip(1).collect())
}
