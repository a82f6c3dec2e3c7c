//! `bench up`: how long `c5c3 up` takes, beside a script that starts the same servers and does nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SCRIPT: &str = include_str!("../up/by-hand.sh");

/// What a small cloud is made of so far.
const IMAGES: [&str; 5] = ["mariadb", "rabbitmq", "valkey", "memcached", "keystone"];

/// The line of the script that is about all others.
const ALL: &str = "all of it";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each is measured; the shortest counts
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Where the images are put and the cluster has its data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let work = TempDir::with_prefix_in("c5c3-bench-", &args.work).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("c5c3");
    let script = work.path().join("by-hand.sh");
    std::fs::write(&script, SCRIPT).map_err(|error| format!("cannot write {}: {error}", script.display()))?;
    eprintln!("bench: building the images");
    let archives = work.path().join("archives");
    export(&program, &archives)?;
    let mut by_hand: Option<Vec<Step>> = None;
    let mut up: Option<Times> = None;
    for run in 1..=args.runs {
        eprintln!("bench: run {run} of {}, by hand", args.runs);
        // Nothing is deleted before the end: for a while, ext4 passes over each inode that was freed.
        let place = work.path().join(format!("by-hand-{run}"));
        std::fs::create_dir(&place).map_err(|error| error.to_string())?;
        let steps = steps(&output(Command::new("bash").arg(&script).args([&archives, &place]))?)?;
        by_hand = Some(by_hand.into_iter().chain([steps]).min_by_key(|steps| all(steps)).unwrap_or_default());
        eprintln!("bench: run {run} of {}, c5c3 up", args.runs);
        let times = cluster(&program, &work.path().join(format!("data-{run}")))?;
        up = Some(up.into_iter().chain([times]).min_by_key(|times| times.first).unwrap_or(times));
    }
    let (Some(by_hand), Some(up)) = (by_hand, up) else { return Err("--runs must be at least 1".into()) };
    println!("{}", table(&by_hand, up));
    Ok(())
}

/// One step of the script, and how long it took.
type Step = (String, Duration);

/// How long `c5c3 up` took until the ControlPlane was ready.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// From nothing but the images.
    first: Duration,
    /// Once more, with the data of the first.
    again: Duration,
}

fn export(program: &Path, archives: &Path) -> Result<(), String> {
    std::fs::create_dir(archives).map_err(|error| error.to_string())?;
    output(Command::new(program).args(["image", "build"]).args(IMAGES))?;
    for image in IMAGES {
        let archive = archives.join(format!("{image}.tar"));
        output(Command::new(program).args(["image", "export", image, "--output"]).arg(&archive))?;
    }
    Ok(())
}

/// Brings the cluster up from nothing, ends it, brings it up again, and ends it. Its data goes with the rest of the work.
fn cluster(program: &Path, data: &Path) -> Result<Times, String> {
    let call = |arguments: &[&str]| {
        let begun = Instant::now();
        output(Command::new(program).args(arguments).arg("--data").arg(data)).map(|_| begun.elapsed())
    };
    let measured = (|| {
        let first = call(&["up", "--minimal", "--detach"])?;
        call(&["down"])?;
        Ok(Times { first, again: call(&["up", "--minimal", "--detach"])? })
    })();
    call(&["down"])?;
    measured
}

pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() { Ok(text) } else { Err(format!("{name} failed, {}:\n{text}", done.status)) }
}

/// The script's lines: a step, a space, its seconds.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let step = |line: &str| {
        let (name, seconds) = line.rsplit_once(' ')?;
        let seconds = seconds.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0)?;
        Some((name.to_owned(), Duration::from_secs_f64(seconds)))
    };
    text.lines().map(|line| step(line).ok_or_else(|| format!("the script said {line:?}"))).collect()
}

fn all(steps: &[Step]) -> Duration {
    steps.iter().find(|(name, _)| name == ALL).map_or(Duration::ZERO, |(_, took)| *took)
}

fn table(by_hand: &[Step], up: Times) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    let seconds = |took: Duration| format!("{:.1} s", took.as_secs_f64());
    let each = || by_hand.iter().filter(|(name, _)| name != ALL);
    rows.extend(each().map(|(name, took)| (format!("  {name}"), seconds(*took))));
    rows.push(("by hand, one after the other".into(), seconds(each().map(|(_, took)| *took).sum())));
    let whole = all(by_hand);
    rows.push(("by hand, as much at once as can be".into(), seconds(whole)));
    rows.push(("c5c3 up, with a cluster to begin with".into(), seconds(up.first)));
    let beyond = up.first.as_secs_f64() - whole.as_secs_f64();
    rows.push(("beyond the services' own work".into(), format!("{beyond:.1} s")));
    rows.push(("in parts of c5c3 up".into(), format!("{:.0} %", 100.0 * beyond / up.first.as_secs_f64())));
    rows.push(("c5c3 up, again on its data".into(), seconds(up.again)));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, amount)| format!("{name:<width$}  {amount:>8}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_says_is_read_and_compared() {
        let steps = steps("mariadb: data 1.500\nkeystone: schema 6.500\nall of it 10.000\n").unwrap();
        let up = Times { first: Duration::from_millis(10_900), again: Duration::from_secs(4) };
        let table = table(&steps, up);
        let amount = |row: &str| table.lines().find_map(|line| line.strip_prefix(row)).unwrap().trim();
        assert_eq!(amount("by hand, one after the other"), "8.0 s");
        assert_eq!(amount("beyond the services' own work"), "0.9 s");
        assert_eq!(amount("in parts of c5c3 up"), "8 %");
    }

    #[test]
    fn a_line_that_is_no_step_is_an_error_that_shows_it() {
        assert_eq!(steps("Traceback").unwrap_err(), "the script said \"Traceback\"");
        assert_eq!(steps("rabbitmq soon").unwrap_err(), "the script said \"rabbitmq soon\"");
    }
}
