//! The `lineside` command.

fn main() -> std::process::ExitCode {
    lineside::main()
}
