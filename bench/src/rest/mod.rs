//! `bench rest`: what operators ask of an API server when nothing happens, and what they cost.
//!
//! The cluster is a real one with real servers; the operators are processes of their own, with the accounts that
//! `c5c3 manifests` gives them. Each talks to the API through a `kubectl proxy` that logs its requests.

mod requests;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::idle::{TICKS, ticks};
use crate::up::output;
use requests::{Requests, Sort, requests};

/// The operators that a small cloud needs: what the command line calls each, and the namespace and name of its account.
const OPERATORS: [(&str, &str, &str); 2] =
    [("controlplane", "c5c3-system", "c5c3-operator"), ("keystone", NAMESPACE, "keystone-operator")];

/// What a small cloud is made of.
const IMAGES: [&str; 5] = ["mariadb", "rabbitmq", "valkey", "memcached", "keystone"];

const CLOUD: &str = include_str!("../../../cli/src/up/small.yaml");

/// Where the cloud is.
const NAMESPACE: &str = "openstack";

/// How long is waited before the first count: what came of the last change is over by then.
const CALM: Duration = Duration::from_mins(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many Keystones there are
    #[arg(long, default_value_t = 1)]
    keystones: u32,
    /// How many Deployments and how many Jobs there are that no operator has made
    #[arg(long, default_value_t = 0)]
    unrelated: u32,
    /// For how many minutes requests are counted
    #[arg(long, default_value_t = 5)]
    minutes: u32,
    /// The program that is measured; the one beside this when absent
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where the cluster has its data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work: PathBuf,
}

pub(crate) async fn run(args: &Args) -> Result<(), String> {
    let work = TempDir::with_prefix_in("c5c3-bench-", &args.work).map_err(|error| error.to_string())?;
    let beside = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("c5c3");
    let bench = Bench { program: args.program.clone().unwrap_or(beside), folder: work.path().to_owned() };
    let measured = bench.measure(args).await;
    bench.c5c3(&["down"])?;
    println!("{}", measured?);
    Ok(())
}

struct Bench {
    program: PathBuf,
    folder: PathBuf,
}

/// An operator and the proxy in front of it. Both end with this value.
struct Operator {
    name: &'static str,
    processes: [Child; 2],
    log: PathBuf,
}

impl Drop for Operator {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Operator {
    fn pid(&self) -> u32 {
        self.processes[1].id()
    }

    fn requests(&self) -> Result<Vec<requests::Request>, String> {
        let log = std::fs::read_to_string(&self.log).map_err(|error| error.to_string())?;
        Ok(requests(&log))
    }
}

impl Bench {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn c5c3(&self, arguments: &[&str]) -> Result<String, String> {
        output(Command::new(&self.program).args(arguments).arg("--data").arg(self.data()))
    }

    /// A line of shell that talks to the cluster.
    fn shell(&self, line: &str) -> Result<String, String> {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).env("C5C3", &self.program).env("KUBECONFIG", self.data().join("kubeconfig"));
        output(&mut command)
    }

    async fn measure(&self, args: &Args) -> Result<String, String> {
        eprintln!("bench: starting a cluster and the operators");
        self.c5c3(&["up", "--no-operators", "--detach"])?;
        self.c5c3(&[&["image", "import"], &IMAGES[..]].concat())?;
        self.shell(&format!("kubectl create namespace {NAMESPACE}"))?;
        self.shell("$C5C3 crds | kubectl apply --server-side -f -")?;
        // They run here, where they can be measured, and not as pods.
        self.shell("$C5C3 manifests | kubectl apply --server-side -f -")?;
        self.shell(
            "kubectl get deployments -A -l app.kubernetes.io/part-of=c5c3 --no-headers \
             | while read -r namespace name rest; do kubectl -n \"$namespace\" scale deployment \"$name\" --replicas=0; done",
        )?;
        let mut operators = Vec::new();
        for (name, home, account) in OPERATORS {
            operators.push(self.operate(name, home, account)?);
        }
        eprintln!("bench: bringing up {} Keystones", args.keystones);
        self.bring_up(args.keystones)?;
        let client = crate::api::connect(&self.data().join("kubeconfig")).await?;
        clutter(&client, args.unrelated).await?;
        eprintln!("bench: counting for {} min", args.minutes);
        tokio::time::sleep(CALM).await;
        let mut before = Vec::new();
        for operator in &operators {
            before.push((operator.requests()?.len(), ticks(&[operator.pid()])));
        }
        let time = Duration::from_mins(u64::from(args.minutes));
        tokio::time::sleep(time).await;
        let mut text = String::new();
        for (operator, (seen, used)) in operators.iter().zip(before) {
            let all = operator.requests()?;
            let counted = Requests::of(all.get(seen..).unwrap_or_default());
            let used = (ticks(&[operator.pid()]) - used) / TICKS / time.as_secs_f64();
            text += &table(operator.name, &counted, args.minutes, &self.cost(operator.pid(), used, &all)?);
        }
        Ok(text)
    }

    /// Starts an operator with the account of its manifest, and a proxy of that account which logs what it is asked.
    fn operate(&self, name: &'static str, home: &str, account: &str) -> Result<Operator, String> {
        let log = self.folder.join(format!("{name}.requests"));
        let failed = |error: std::io::Error| format!("cannot start the {name} operator: {error}");
        let mut proxy = Command::new("kubectl")
            .args(["proxy", "-v=6", "--port=0"])
            .arg(format!("--as=system:serviceaccount:{home}:{account}"))
            .env("KUBECONFIG", self.data().join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let mut said = String::new();
        BufReader::new(proxy.stdout.take().ok_or("kubectl proxy has no output")?)
            .read_line(&mut said)
            .map_err(failed)?;
        let (_, address) = said.trim_end().rsplit_once(' ').ok_or_else(|| format!("kubectl proxy said {said:?}"))?;
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "anonymous"}}],
            "users": [{"name": "anonymous", "user": {}}]});
        let path = self.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).map_err(failed)?;
        let said = File::create(self.folder.join(format!("{name}.log"))).map_err(failed)?;
        let operator = Command::new(&self.program)
            .args(["operator", name, "--namespace", NAMESPACE, "--lease-namespace", home])
            .args(["--metrics-address", "127.0.0.1:0"])
            .env("KUBECONFIG", path)
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(failed)?)
            .stderr(said)
            .spawn()
            .map_err(failed)?;
        Ok(Operator { name, processes: [proxy, operator], log })
    }

    /// Makes the cloud, and further Keystones like that of the cloud, each with a database and a user of its own.
    fn bring_up(&self, keystones: u32) -> Result<(), String> {
        let file = self.folder.join("cloud.yaml");
        std::fs::write(&file, CLOUD).map_err(|error| error.to_string())?;
        self.shell(&format!("kubectl apply -f {}", file.display()))?;
        self.shell(&format!("kubectl -n {NAMESPACE} wait --for=condition=Ready controlplane --all --timeout=900s"))?;
        let first = self.shell(&format!("kubectl -n {NAMESPACE} get keystone keystone -o json"))?;
        let first: Value = serde_json::from_str(&first).map_err(|error| error.to_string())?;
        for number in 2..=keystones {
            let name = format!("keystone-{number}");
            let mut spec = first["spec"].clone();
            spec["database"]["database"] = json!(format!("keystone{number}"));
            spec["database"]["secretRef"]["name"] = json!(format!("{name}-db"));
            let another = json!({"apiVersion": first["apiVersion"], "kind": "Keystone", "spec": spec,
                "metadata": {"name": name, "namespace": NAMESPACE}});
            let file = self.folder.join(format!("{name}.json"));
            std::fs::write(&file, another.to_string()).map_err(|error| error.to_string())?;
            self.shell(&format!(
                "kubectl -n {NAMESPACE} create secret generic {name}-db --from-literal=username=keystone{number} \
                 --from-literal=password=\"$(od -An -N16 -tx1 /dev/urandom | tr -d ' ')\" && kubectl apply -f {}",
                file.display()
            ))?;
        }
        self.shell(&format!("kubectl -n {NAMESPACE} wait --for=condition=Ready keystone --all --timeout=1800s"))?;
        Ok(())
    }

    /// What an operator has cost: its memory, its share of a processor, what it holds of the cluster.
    fn cost(&self, pid: u32, used: f64, requests: &[requests::Request]) -> Result<Vec<(String, String)>, String> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| error.to_string())?;
        let memory = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
            let kib: u32 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
            format!("{:.1} MiB", f64::from(kib) / 1024.0)
        };
        let lists = requests::watched(requests);
        let mut held = 0;
        for list in &lists {
            let listed = self.shell(&format!("kubectl get --raw '{list}'"))?;
            let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
            held += listed["items"].as_array().map_or(0, Vec::len);
        }
        Ok(vec![
            ("processor".to_owned(), format!("{:.2} % of one", 100.0 * used)),
            ("resident memory".to_owned(), memory("VmRSS:")),
            ("of that, anonymous".to_owned(), memory("RssAnon:")),
            ("lists that it has watched".to_owned(), lists.len().to_string()),
            ("objects in these lists".to_owned(), held.to_string()),
        ])
    }
}

/// Makes Deployments without pods and suspended Jobs, which no operator of ours has to do with.
async fn clutter(client: &Client, count: u32) -> Result<(), String> {
    let template = json!({"metadata": {"labels": {"app": "unrelated"}},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "app", "image": "c5c3.local/unrelated"}]}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    for number in 0..count {
        let metadata = json!({"name": format!("unrelated-{number}"), "namespace": NAMESPACE});
        let spec = json!({"replicas": 0, "template": template, "selector": {"matchLabels": {"app": "unrelated"}}});
        create(client, &ApiResource::erase::<Deployment>(&()), json!({"metadata": metadata, "spec": spec})).await?;
        let spec = json!({"suspend": true, "template": once});
        create(client, &ApiResource::erase::<Job>(&()), json!({"metadata": metadata, "spec": spec})).await?;
    }
    Ok(())
}

async fn create(client: &Client, resource: &ApiResource, object: Value) -> Result<(), String> {
    let object: DynamicObject = serde_json::from_value(object).map_err(|error| error.to_string())?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, resource);
    api.create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
}

/// One operator: how often it asked for what, by the minute, and what it cost.
fn table(name: &str, counted: &Requests, minutes: u32, cost: &[(String, String)]) -> String {
    let per_minute = |count: u32| format!("{:.1} a minute", f64::from(count) / f64::from(minutes));
    let mut rows: Vec<(String, String)> = Vec::new();
    for sort in Sort::ALL {
        rows.push((sort.words().to_owned(), per_minute(counted.count(sort))));
        rows.extend(counted.details(sort).map(|(what, count)| (format!("  {what}"), per_minute(count))));
    }
    rows.push(("all requests".into(), per_minute(counted.all())));
    rows.push(("all but those for the Lease".into(), per_minute(counted.all() - counted.count(Sort::Lease))));
    rows.extend(cost.iter().cloned());
    let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    let rows: Vec<String> = rows.iter().map(|(what, amount)| format!("{what:<width$}  {amount:>16}")).collect();
    format!("{name}\n{}\n", rows.join("\n"))
}
