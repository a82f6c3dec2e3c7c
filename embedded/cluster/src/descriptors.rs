//! How many files and connections a process may have open. A shell's usual limit of 1024 is for one program, and here one
//! process is the API, its store and the names of all pods.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What containers get, or what the machine allows if that is less. Enough for a message broker; some programs make tables of
/// this size, or close every number up to it.
pub(crate) const OF_CONTAINERS: u64 = 65_536;

/// Below this a cluster of a few services runs out.
const FEW: u64 = 4096;

/// Lets this process, and those that it starts, have as many as the machine allows, or `most`. That is the hard limit then,
/// too: Go programs, which containerd and runc are, raise the soft limit to it, and containers inherit what those have.
pub(crate) fn raise(most: Option<u64>) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = wanted(limit.maximum, most);
    let maximum = if most.is_some() { wanted } else { limit.maximum };
    setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum })?;
    if let Some(few) = wanted.filter(|wanted| *wanted < FEW) {
        tracing::warn!(
            limit = few,
            "this process may have few files open; raise the hard limit with `ulimit -Hn 65536`"
        );
    }
    Ok(())
}

/// The limit to set; none for no limit at all.
fn wanted(hard: Option<u64>, most: Option<u64>) -> Option<u64> {
    hard.into_iter().chain(most).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_machine_allows_or_less_if_that_is_enough() {
        assert_eq!(wanted(Some(524_288), None), Some(524_288));
        assert_eq!(wanted(Some(524_288), Some(OF_CONTAINERS)), Some(OF_CONTAINERS));
        assert_eq!(wanted(Some(2048), Some(OF_CONTAINERS)), Some(2048));
        assert_eq!(wanted(None, Some(OF_CONTAINERS)), Some(OF_CONTAINERS));
        assert_eq!(wanted(None, None), None);
    }

    #[test]
    fn a_process_with_a_shells_limit_gets_more() {
        let hard = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: hard }).unwrap();
        raise(None).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
        raise(Some(512)).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: Some(512), maximum: Some(512) });
    }
}
