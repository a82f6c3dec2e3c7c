//! What all commands have in common, by a table over all of them.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Command, CommandFactory, Parser as _};

use super::Args;

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    /// It looks at a cluster, and prints a result: --kubeconfig, --context, -n and -o.
    Looks,
    /// It looks at a cluster, and prints text as it comes, or writes a file: --kubeconfig, --context and -n.
    Reads,
    /// It asks a cluster for something, and may stay until that is done: --wait as well.
    Asks,
    /// It runs as a part of a cluster, or is about this machine or about files.
    Other,
}

use Convention::{Asks, Looks, Other, Reads};

/// Every command. One that is new has to find its place here.
const COMMANDS: &[(&str, Convention)] = &[
    ("agent", Other),
    ("apiserver", Other),
    ("backup", Other),
    ("charts", Other),
    ("completions", Other),
    ("crds", Other),
    ("credentials", Looks),
    ("doctor", Other),
    ("down", Other),
    ("drain", Asks),
    ("env", Other),
    ("flux", Other),
    ("hypervisors", Looks),
    ("image", Other),
    ("logs", Reads),
    ("manifests", Other),
    ("monitoring", Other),
    ("node", Other),
    ("node-agent", Other),
    ("operator", Other),
    ("plan", Looks),
    ("providers", Other),
    ("reference", Other),
    ("restore", Other),
    ("rotate", Asks),
    ("scheduler", Other),
    ("status", Looks),
    ("support", Reads),
    ("test", Asks),
    ("tls", Other),
    ("up", Other),
    ("validate", Other),
    ("version", Other),
    ("why", Looks),
];

fn commands() -> Vec<Command> {
    let mut tree = Args::command();
    tree.build();
    tree.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
}

fn flag<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(long))
}

fn convention(name: &str) -> Option<Convention> {
    COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, convention)| *convention)
}

#[test]
fn every_command_is_in_the_table() {
    let there: BTreeSet<String> = commands().iter().map(|command| command.get_name().to_owned()).collect();
    let unknown: Vec<&String> = there.iter().filter(|name| convention(name).is_none()).collect();
    assert!(unknown.is_empty(), "say in COMMANDS what {unknown:?} takes");
    let gone: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).filter(|name| !there.contains(*name)).collect();
    assert!(gone.is_empty(), "{gone:?} is no command any more");
}

#[test]
fn what_looks_at_a_cluster_says_which_one_in_the_same_way() {
    for command in commands() {
        let name = command.get_name();
        if matches!(convention(name), None | Some(Other)) {
            continue;
        }
        for (long, short) in [("kubeconfig", None), ("context", None), ("namespace", Some('n')), ("data", None)] {
            let found = flag(&command, long).unwrap_or_else(|| panic!("{name} has no --{long}"));
            assert_eq!(found.get_short(), short, "{name} --{long}");
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let is_said = ["Exit code 0: ", "1: ", "2: "].iter().all(|code| help.contains(code));
        assert!(is_said || convention(name) == Some(Reads), "the help of {name} does not say what its exit codes mean");
    }
}

#[test]
fn what_prints_a_result_prints_it_for_programs_too() {
    for command in commands() {
        let name = command.get_name();
        let is_asked = convention(name) == Some(Looks);
        let Some(output) = flag(&command, "output") else {
            assert!(!is_asked, "{name} has no -o");
            continue;
        };
        if !is_asked {
            continue;
        }
        assert_eq!(output.get_short(), Some('o'), "{name}");
        let values: Vec<String> =
            output.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        for format in ["json", "yaml"] {
            assert!(values.iter().any(|value| value == format), "{name} -o {format} is not known: {values:?}");
        }
        if values.iter().any(|value| value == "table") {
            assert!(values.iter().any(|value| value == "wide"), "{name} prints a table and has no -o wide");
        }
    }
}

#[test]
fn what_asks_for_something_can_wait_for_it() {
    for command in commands().iter().filter(|command| convention(command.get_name()) == Some(Asks)) {
        let name = command.get_name();
        let wait = flag(command, "wait").unwrap_or_else(|| panic!("{name} has no --wait"));
        assert!(matches!(wait.get_action(), ArgAction::SetTrue), "{name}");
        assert!(flag(command, "timeout").is_some(), "{name} has no --timeout");
    }
}

#[test]
fn a_letter_means_the_same_in_every_command() {
    let meanings = [('n', "namespace"), ('o', "output"), ('f', "file"), ('A', "all-namespaces"), ('c', "container")];
    for command in commands() {
        for arg in command.get_arguments() {
            let Some((letter, long)) = arg.get_short().zip(arg.get_long()) else { continue };
            // `logs -f` and `status -w` are those of kubectl.
            let exceptions = [("logs", "follow")];
            let known = meanings.iter().find(|(known, _)| *known == letter).map(|(_, long)| *long);
            let is_exception = exceptions.contains(&(command.get_name(), long));
            assert!(
                known.is_none_or(|known| known == long) || is_exception,
                "{} -{letter} is --{long}",
                command.get_name()
            );
        }
    }
}

#[test]
fn every_command_has_completions_and_says_what_it_is_for() {
    let mut tree = Args::command();
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut tree, "c5c3", &mut script);
        let script = String::from_utf8(script).unwrap();
        for command in commands().iter().filter(|command| !command.is_hide_set()) {
            assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
        }
    }
    for command in commands().iter().filter(|command| !command.is_hide_set()) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
    }
    let help = Args::command().get_after_help().map(ToString::to_string).unwrap_or_default();
    assert!(
        help.contains("kubectl c5c3") && help.contains("0: ") && help.contains("1: ") && help.contains("2: "),
        "{help}"
    );
}

#[test]
fn a_provider_is_switched_off_by_its_name_and_a_slip_is_told_the_nearest() {
    for command in ["up", "providers"] {
        let parse = |name: &str| Args::try_parse_from(["c5c3", command, "--without-provider", name]);
        assert!(c5c3_providers::names().into_iter().all(|name| parse(name).is_ok()), "{command}");
        let told = parse("rok").unwrap_err().to_string();
        assert!(told.contains("'rook'") && told.contains("valkey-operator"), "{told}");
    }
}
