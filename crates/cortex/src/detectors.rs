//! The detectors: which hosts carry too much, by what is known of them. What is done about it is decided elsewhere.

use crate::host::Host;
use crate::pipeline::{self, PipelineProblem, StepSpec};
use crate::request::Domain;
use crate::resources::Resources;
use crate::steps::{self, Kind, Role};

/// How much of a host may be taken when a detector does not say otherwise, in percent.
const USUAL_PERCENT: f64 = 90.0;

/// What a detector measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The share of the memory that is taken, in percent.
    Memory,
    /// The share of the vCPUs that is taken, in percent.
    Cpu,
    /// How many servers there are.
    Instances,
}

impl Load {
    /// The load of a host with so much on it; `None` if its capacity is not known.
    pub fn of(self, host: &Host, taken: Resources, servers: usize) -> Option<f64> {
        match self {
            Self::Memory => percent(taken.memory_mib, host.capacity.memory_mib?),
            Self::Cpu => percent(taken.vcpus, host.capacity.vcpus?),
            Self::Instances => Some(number(servers as u64)),
        }
    }

    /// A load in words, after "has".
    pub fn words(self, load: f64) -> String {
        match self {
            Self::Memory => format!("{load:.1} % of its memory taken"),
            Self::Cpu => format!("{load:.1} % of its vCPUs taken"),
            Self::Instances => self.amount(load),
        }
    }

    /// A load as a number with its unit.
    pub fn amount(self, load: f64) -> String {
        match self {
            Self::Memory | Self::Cpu => format!("{load:.1} %"),
            Self::Instances if (load - 1.0).abs() < f64::EPSILON => "1 server".into(),
            Self::Instances => format!("{load:.0} servers"),
        }
    }
}

/// A host without capacity has no load that a migration could change.
fn percent(taken: u64, has: u64) -> Option<f64> {
    (has > 0).then(|| 100.0 * number(taken) / number(has))
}

/// Exact up to 2^53, far above any host's MiB.
#[allow(clippy::cast_precision_loss)]
fn number(amount: u64) -> f64 {
    amount as f64
}

/// A detector that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub load: Load,
    /// The load above which a host carries too much.
    pub threshold: f64,
}

impl Detector {
    /// Makes the detectors of a pipeline run, or says everything that is wrong.
    pub fn compile(specs: &[StepSpec], domain: Domain) -> Result<Vec<Self>, Vec<PipelineProblem>> {
        let (mut detectors, mut problems, mut seen): (Vec<Self>, _, Vec<&str>) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in specs.iter().enumerate() {
            let path = format!("detectors[{index}]");
            let Some(info) = steps::find(Role::Detector, &spec.name) else {
                problems.push(pipeline::unknown(&path, Role::Detector, domain, &spec.name));
                continue;
            };
            problems.extend(pipeline::mistakes(&path, info, spec, domain, &seen));
            seen.push(info.name);
            let Kind::Detector(load) = info.kind else { continue };
            let usual = if load == Load::Instances { None } else { Some(USUAL_PERCENT) };
            match spec.params.number("threshold").or(usual) {
                Some(threshold) => detectors.push(Self { name: info.name, load, threshold }),
                None if spec.params.0.contains_key("threshold") => {}
                None => problems.push(PipelineProblem {
                    path: format!("{path}.params.threshold"),
                    what: "is missing".into(),
                    fix: "write how many servers a host may have".into(),
                }),
            }
        }
        if problems.is_empty() { Ok(detectors) } else { Err(problems) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Param, Params};
    use crate::resources::Amounts;

    fn spec(name: &str, threshold: Option<f64>) -> StepSpec {
        let params = threshold.map(|number| ("threshold".to_owned(), Param::Number(number)));
        StepSpec { params: Params(params.into_iter().collect()), ..StepSpec::new(name) }
    }

    fn problems(specs: &[StepSpec], domain: Domain) -> Vec<String> {
        let wrong = Detector::compile(specs, domain).unwrap_err();
        wrong.into_iter().map(|one| format!("{}: {}; {}", one.path, one.what, one.fix)).collect()
    }

    #[test]
    fn a_load_is_a_share_of_what_a_host_has_with_its_overcommitment() {
        let capacity = Amounts { vcpus: Some(8), memory_mib: Some(1000), disk_gib: None };
        let host = Host { name: "plum".into(), capacity, ..Host::default() };
        let taken = Resources { vcpus: 6, memory_mib: 995, disk_gib: 0 };
        let loads = [Load::Memory, Load::Cpu, Load::Instances].map(|load| load.of(&host, taken, 3));
        assert_eq!(loads, [Some(99.5), Some(75.0), Some(3.0)]);
        assert_eq!(Load::Memory.of(&Host::default(), taken, 3), None, "its capacity is not known");
        assert_eq!(Load::Memory.words(99.46), "99.5 % of its memory taken");
    }

    #[test]
    fn a_detector_has_a_threshold_that_fits_what_it_measures() {
        let made = Detector::compile(&[spec("avoid_high_memory_pct", None)], Domain::Nova).unwrap();
        assert_eq!(made, [Detector { name: "avoid_high_memory_pct", load: Load::Memory, threshold: 90.0 }]);
        let many = Detector::compile(&[spec("avoid_many_instances", Some(40.0))], Domain::Nova).unwrap();
        assert_eq!((many[0].load, many[0].threshold), (Load::Instances, 40.0));
        assert_eq!(
            problems(&[spec("avoid_many_instances", None), spec("avoid_high_cpu_pct", Some(120.0))], Domain::Nova),
            [
                "detectors[0].params.threshold: is missing; write how many servers a host may have",
                "detectors[1].params.threshold: is a number; write a percentage from 1 to 100",
            ]
        );
    }

    #[test]
    fn a_wrong_detector_is_named_with_the_nearest_one() {
        assert_eq!(
            problems(&[spec("avoid_high_memory", None), spec("weigher_ram", None)], Domain::Nova),
            [
                "detectors[0].name: no detector is called avoid_high_memory; did you mean avoid_high_memory_pct?",
                "detectors[1].name: no detector is called weigher_ram; it is a weigher; list it under weighers",
            ]
        );
        let volumes = problems(&[spec("avoid_high_memory_pct", None)], Domain::Cinder);
        assert_eq!(volumes, ["detectors[0].name: avoid_high_memory_pct knows nothing of cinder; remove it"]);
    }
}
