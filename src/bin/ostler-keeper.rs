//! The keeper as a program of its own. What it does is written in the `ostler-keeper` crate.

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().is_some_and(|word| word == "helper") {
        true => ostler_keeper::helper::main(arguments),
        false => ostler_keeper::main(),
    }
}
