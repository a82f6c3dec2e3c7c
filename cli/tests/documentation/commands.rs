//! The commands of `c5c3` that pages show exist, with the options that they are shown with.

use std::collections::BTreeMap;
use std::process::Command;

use crate::pages::written;

/// What a command says of itself.
#[derive(Default)]
struct Helps(BTreeMap<Vec<String>, String>);

impl Helps {
    fn of(&mut self, command: &[String]) -> &str {
        self.0.entry(command.to_vec()).or_insert_with(|| {
            let out = Command::new(env!("CARGO_BIN_EXE_c5c3")).args(command).arg("--help").output().unwrap();
            String::from_utf8(out.stdout).unwrap()
        })
    }

    /// Whether a command has this one below it.
    fn has(&mut self, command: &[String], name: &str) -> bool {
        let help = self.of(command);
        let listed = help.split_once("Commands:").map(|(_, rest)| rest).unwrap_or_default();
        listed.lines().any(|line| line.strip_prefix("  ").is_some_and(|line| line.split(' ').next() == Some(name)))
    }
}

/// The words of each call of `c5c3` in a line: up to what ends a command of a shell.
fn calls(line: &str) -> Vec<Vec<&str>> {
    let code = line.split_once(" # ").map_or(line, |(code, _)| code);
    let words: Vec<&str> = code.split_whitespace().collect();
    let starts = words.iter().enumerate().filter(|(index, word)| {
        let before = index.checked_sub(1).map_or("", |index| words[index]);
        let begins = ["", "$", "|", "&&", "eval", "\"$(c5c3", "kubectl"].contains(&before) || before.ends_with(';');
        **word == "c5c3" && begins || word.ends_with("$(c5c3")
    });
    let call = |(index, _): (usize, &&str)| {
        let ends = |word: &&&str| ["|", "&&", "#", ">", "||", "\\"].contains(*word);
        let rest = words[index + 1..].iter().take_while(|word| !ends(word));
        rest.map(|word| word.trim_end_matches([')', '"', ';', ',', '.'])).collect()
    };
    starts.map(call).collect()
}

#[test]
fn every_command_that_a_page_shows_exists_with_its_options() {
    let mut helps = Helps::default();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in written() {
        let inline = page.code().map(|(number, code)| (number, code.to_owned()));
        let fenced = page.fenced().map(|(number, line)| (number, line.to_owned()));
        for (number, line) in inline.chain(fenced).collect::<Vec<_>>() {
            for words in calls(&line) {
                let mut command: Vec<String> = Vec::new();
                for word in &words {
                    if !word.starts_with('-') && helps.has(&command, word) {
                        command.push((*word).to_owned());
                    } else {
                        break;
                    }
                }
                let Some(first) = words.first().filter(|first| first.chars().all(|c| c.is_ascii_lowercase())) else {
                    continue;
                };
                count += 1;
                if command.is_empty() {
                    wrong.push(format!("{}:{number}: c5c3 has no command {first}: {line}", page.path));
                    continue;
                }
                let help = helps.of(&command).to_owned();
                let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
                let names = options.map(|option| option.split_once('=').map_or(*option, |(name, _)| name));
                let unknown = names.filter(|name| !help.split([' ', ',', '\n', '=', '[']).any(|word| word == *name));
                wrong.extend(
                    unknown.map(|name| format!("{}:{number}: c5c3 {} has no {name}", page.path, command.join(" "))),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count} commands were found: are they still shown as `c5c3 ...`?");
}

#[test]
fn calls_are_found_wherever_a_shell_would_start_them() {
    let found = calls("$ eval \"$(c5c3 env --data X)\" && c5c3 up --minimal # c5c3 no");
    assert_eq!(found, [vec!["env", "--data", "X"], vec!["up", "--minimal"]]);
    assert_eq!(calls("controlplane/c5c3 c5c3.io/paused deploy/charts/c5c3 -n x"), Vec::<Vec<&str>>::new());
}
