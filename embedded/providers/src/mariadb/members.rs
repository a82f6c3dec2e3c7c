//! What the members of a Galera cluster say of themselves on their own port, and what that means for a person.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::config::STATE_PORT;

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The cluster of a member that has none.
const NOWHERE: &str = "00000000-0000-0000-0000-000000000000";

/// What a member says, as `scripts/entry.sh` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) ordinal: i32,
    /// `waiting`, `bootstrapping`, `joining`, `primary` or `lost`.
    pub(super) phase: String,
    /// The cluster that its data is of.
    pub(super) uuid: String,
    /// How far its data has come.
    pub(super) seqno: i64,
}

impl Member {
    /// Reads a line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (ordinal, phase, uuid, seqno) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self {
            ordinal: ordinal.parse().ok()?,
            phase: phase.to_owned(),
            uuid: uuid.to_owned(),
            seqno: seqno.parse().ok()?,
        })
    }

    /// How the member is, in words.
    pub(super) fn tell(&self) -> String {
        match self.phase.as_str() {
            "waiting" if self.uuid == NOWHERE => "waits for the others, without data".into(),
            "waiting" => format!("waits for the others, with its data at {}:{}", self.uuid, self.seqno),
            "bootstrapping" => "starts the cluster".into(),
            "joining" => "joins the cluster, and copies what it lacks".into(),
            "lost" => "has lost the majority of the cluster".into(),
            _ => "is in the cluster, and not ready yet".into(),
        }
    }
}

/// Asks a member.
pub(super) async fn ask(address: &str) -> Option<Member> {
    let address = SocketAddr::new(address.parse().ok()?, STATE_PORT);
    let answer = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let mut line = String::new();
        stream.take(256).read_to_string(&mut line).await.ok()?;
        Member::parse(&line)
    };
    tokio::time::timeout(PATIENCE, answer).await.ok()?
}

/// What only a person can decide: which of several clusters is the right one.
pub(super) fn conflict(members: &[Member]) -> Option<String> {
    let mut with_data = members.iter().filter(|member| member.uuid != NOWHERE && member.phase == "waiting");
    let first = with_data.next()?;
    let other = with_data.find(|member| member.uuid != first.uuid)?;
    Some(format!(
        "members have data of different clusters ({} of {}, {} of {}), and nobody but you knows which is right: delete \
         the claims of the wrong ones, then their pods",
        first.ordinal, first.uuid, other.ordinal, other.uuid
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn members_of_different_clusters_are_a_matter_for_a_person() {
        let member = |line: &str| Member::parse(line).unwrap();
        let empty = member(&format!("0 waiting {NOWHERE} -1 0 0"));
        let (one, other) = (member("1 waiting aaaa 7 0 1"), member("2 waiting bbbb 3 0 1"));
        assert_eq!(conflict(&[empty.clone(), one.clone()]), None);
        assert!(conflict(&[empty, one, other]).unwrap().contains("1 of aaaa, 2 of bbbb"));
        assert_eq!(Member::parse("garbage"), None);
    }

    /// What a rule of the members' script says when the members say these things.
    fn rule(name: &[&str], lines: &[&str]) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mariadb/scripts/entry.sh");
        let mut rule =
            Command::new("sh").arg(script).args(name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(rule.stdin.take().unwrap(), "{}", lines.join("\n").replace("none", NOWHERE)).unwrap();
        String::from_utf8(rule.wait_with_output().unwrap().stdout).unwrap().trim_end().to_owned()
    }

    /// What a member of a cluster of three decides.
    fn decides(lines: &[&str]) -> String {
        rule(&["decide", "3"], lines)
    }

    /// Where a member's data stands, when its server says this of it.
    fn position(data: &Path, server_says: &str) -> String {
        let programs = tempfile::tempdir().unwrap();
        let server = programs.path().join("mariadbd");
        std::fs::write(&server, format!("#!/bin/sh\necho '{server_says}'\n")).unwrap();
        std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mariadb/scripts/entry.sh");
        let said = Command::new("sh").arg(script).arg("position").arg(data).env("PATH", path).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap().trim_end().replace(NOWHERE, "none")
    }

    #[test]
    fn data_that_was_being_copied_and_data_without_a_position_are_nothing_to_start_from() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(position(data.path(), ""), "none -1 0 0 0");
        std::fs::create_dir(data.path().join("mysql")).unwrap();
        let state = "uuid:    aaaa\nseqno:   -1\nsafe_to_bootstrap: 0\n";
        std::fs::write(data.path().join("grastate.dat"), state).unwrap();
        assert_eq!(position(data.path(), "WSREP: Recovered position: aaaa:7"), "aaaa 7 0 1 0");
        assert_eq!(position(data.path(), "InnoDB: cannot open the system tablespace"), "none -1 0 1 1");
        std::fs::write(data.path().join("sst_in_progress"), "").unwrap();
        assert_eq!(position(data.path(), "WSREP: Recovered position: aaaa:7"), "none -1 0 1 1");
    }

    #[test]
    fn a_member_that_waits_or_copies_lives_without_taking_connections() {
        let place = tempfile::tempdir().unwrap();
        // A port that was just free takes no connection.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let lives = |galera: u8, phase: &str, port: u16| {
            std::fs::write(place.path().join("cluster.env"), format!("GALERA={galera}\nPORT={port}\n")).unwrap();
            std::fs::write(place.path().join("state"), format!("1 {phase} aaaa 7 0 1\n")).unwrap();
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mariadb/scripts/live.sh");
            let mut probe = Command::new("sh");
            probe.arg(script).env("CONF", place.path()).env("STATE", place.path().join("state"));
            probe.stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(lives(1, "joining", port) && lives(1, "waiting", port) && lives(1, "bootstrapping", port));
        assert!(!lives(1, "primary", port) && !lives(1, "lost", port) && !lives(0, "joining", port));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(lives(1, "primary", port) && lives(0, "joining", port));
    }

    #[test]
    fn a_server_is_stuck_when_all_that_it_could_join_have_died() {
        let joins = |others: &[&str]| rule(&["is_stuck", "3", "joining"], others) == "stuck";
        assert!(joins(&["0 joining a 9 0 1", "1 waiting a 9 0 1", "2 joining a 9 0 1"]));
        assert!(joins(&["0 joining a 9 0 1"]) && joins(&["0 joining a 9 0 1", "1 lost a 9 0 1"]));
        assert!(!joins(&["0 joining a 9 0 1", "2 primary a 9 0 1"]) && !joins(&["1 bootstrapping a 9 0 1"]));
    }

    #[test]
    fn a_server_that_lost_the_others_is_stuck_only_when_all_were_started_anew() {
        let lost = |others: &[&str]| rule(&["is_stuck", "3", "lost"], others) == "stuck";
        assert!(lost(&["0 lost a 9 0 1", "1 waiting a 9 0 1", "2 joining a 8 0 1"]));
        // Who does not answer may be the primary component on the other side of a cut.
        assert!(!lost(&["0 lost a 9 0 1", "1 waiting a 9 0 1"]));
        assert!(!lost(&["0 lost a 9 0 1", "1 primary a 9 0 1", "2 joining a 8 0 1"]));
    }

    #[test]
    fn a_server_that_is_up_and_nobody_in_its_group_has_left_it() {
        let left = |said: &[&str]| rule(&["has_left"], said) == "left";
        assert!(left(&["wsrep_provider_name\tGalera"]));
        assert!(left(&["wsrep_gcomm_uuid\t", "wsrep_provider_name\tGalera"]));
        assert!(!left(&["wsrep_gcomm_uuid\tcc6cd19a", "wsrep_provider_name\tGalera"]));
        // One that does not answer starts, copies, or ends.
        assert!(!left(&[]));
    }

    /// What a member says it does after its server has told it of a component.
    fn phase_after(phase: &str, told: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::write(&state, format!("1 {phase} aaaa 7 0 1\n")).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mariadb/scripts/notify.sh");
        let done = Command::new("sh").arg(script).args(told).env("STATE", &state).status().unwrap();
        assert!(done.success());
        Member::parse(&std::fs::read_to_string(&state).unwrap()).unwrap().phase
    }

    #[test]
    fn a_member_is_in_the_primary_component_once_it_has_a_place_there() {
        assert_eq!(phase_after("joining", &["--status", "joiner"]), "joining");
        // Components of the time that it is copying.
        assert_eq!(phase_after("joining", &["--primary", "yes", "--index", "-1"]), "joining");
        assert_eq!(phase_after("joining", &["--primary", "yes", "--index", "2"]), "primary");
        assert_eq!(phase_after("primary", &["--primary", "no", "--index", "0"]), "lost");
        assert_eq!(phase_after("lost", &["--primary", "yes", "--index", "0"]), "primary");
        assert_eq!(phase_after("joining", &["--primary", "no", "--index", "0"]), "joining");
    }

    #[test]
    fn who_joins_copies_from_those_that_were_there_before_and_not_from_one_that_joins_too() {
        assert_eq!(decides(&["0 waiting a 8 0 1", "1 primary a 9 0 1", "2 joining a 7 0 1"]), "join 1");
        assert_eq!(decides(&["0 primary a 8 0 1", "1 primary a 9 0 1", "2 waiting a 7 0 1"]), "join 0 1");
    }

    #[test]
    fn a_new_cluster_is_started_by_its_first_member_once_all_are_there() {
        let all = ["0 waiting none -1 0 0", "1 waiting none -1 0 0", "2 waiting none -1 0 0"];
        assert_eq!(decides(&all), "bootstrap 0");
        assert_eq!(decides(&all[..2]), "wait until all 3 members answer; 2 do");
        // One that goes while the cluster shrinks does not stand for one that is missing.
        assert_eq!(decides(&[all[0], all[1], "3 waiting none -1 0 0"]), "wait until all 3 members answer; 2 do");
        assert_eq!(decides(&[]), "wait until all 3 members answer; 0 do");
    }

    #[test]
    fn after_a_crash_of_all_the_one_that_has_come_farthest_starts_the_cluster() {
        assert_eq!(decides(&["0 waiting a 9 0 1", "1 waiting a 10 0 1", "2 waiting a 10 0 1"]), "bootstrap 1");
        // After a clean stop the last one to go says so.
        assert_eq!(decides(&["0 waiting a 10 0 1", "1 waiting a 10 0 1", "2 waiting a 10 1 1"]), "bootstrap 2");
        // A lost volume starts nothing, wherever it was.
        assert_eq!(decides(&["0 waiting none -1 0 0", "1 waiting a 3 0 1", "2 waiting a 2 0 1"]), "bootstrap 1");
        // One server that had no cluster becomes the first of three.
        assert_eq!(
            decides(&["0 waiting none -1 0 1", "1 waiting none -1 0 0", "2 waiting none -1 0 0"]),
            "bootstrap 0"
        );
    }

    #[test]
    fn nothing_is_started_while_anything_runs() {
        assert_eq!(decides(&["0 primary a 9 0 1", "2 waiting a 10 0 1"]), "join 0");
        let lost = ["0 lost a 9 0 1", "1 waiting a 9 0 1", "2 waiting a 10 0 1"];
        assert_eq!(decides(&lost), "wait for member 0, which looks for the others");
        let starts = ["0 bootstrapping a 9 0 1", "1 waiting a 9 0 1", "2 waiting a 8 0 1"];
        assert_eq!(decides(&starts), "wait for member 0, which starts");
        let joins = ["0 waiting a 9 0 1", "1 joining a 9 0 1", "2 waiting a 8 0 1"];
        assert_eq!(decides(&joins), "wait for member 1, which starts");
    }

    #[test]
    fn what_cannot_be_decided_is_left_to_a_person() {
        let split = decides(&["0 waiting a 9 0 1", "1 waiting b 90 0 1", "2 waiting a 8 0 1"]);
        assert_eq!(split, "person members are of different clusters: 0:a 1:b");
        let several = decides(&["0 waiting none -1 0 1", "1 waiting none -1 0 1", "2 waiting none -1 0 0"]);
        assert_eq!(several, "person several members have data without a position: 0 1");
    }
}
