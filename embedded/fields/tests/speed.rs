//! How long an apply takes. A measurement, not a test: `cargo test --release -p c5c3-fields --test speed -- --ignored
//! --nocapture`.

mod fixtures;

use std::hint::black_box;
use std::time::{Duration, Instant};

use fixtures::*;
use serde_json::{Value, json};

/// A Deployment of about 20 KiB.
fn large(image: &str) -> Value {
    let env = |i: usize| -> Value {
        (0..28).map(|j| json!({"name": format!("SETTING_{i}_{j}"), "value": format!("value of setting {j}")})).collect()
    };
    let containers = (0..10).map(|i| {
        json!({
            "name": format!("container-{i}"), "image": image, "args": ["--verbose", "--config", "/etc/app/app.conf"],
            "env": env(i), "ports": [{"containerPort": 8000 + i, "name": format!("http-{i}")}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        })
    });
    with_containers(containers.collect())
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..301)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
#[ignore = "a measurement"]
fn an_apply_of_a_large_object() {
    let shape = deployment();
    let (config, next) = (large("app:1"), large("app:2"));
    let live = created("ci", &config);
    let live = updated(&live, "scaler", |object| object["spec"]["replicas"] = json!(5));
    let mut fewer = config.clone();
    fewer["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().pop();
    println!(
        "object: {} bytes, managedFields: {} bytes",
        config.to_string().len(),
        live["metadata"]["managedFields"].to_string().len()
    );
    let apply = |config: &Value| c5c3_fields::apply(&shape, Some(&live), config, &later("ci"), false).unwrap();
    println!("apply, nothing changes:   {:?}", median(|| drop(black_box(apply(&config)))));
    println!("apply, ten images change: {:?}", median(|| drop(black_box(apply(&next)))));
    println!("apply, a container goes:  {:?}", median(|| drop(black_box(apply(&fewer)))));
    let track = || c5c3_fields::track_update(&shape, Some(&live), next.clone(), &later("x"));
    println!("update, ten images change: {:?}", median(|| drop(black_box(track()))));
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "container-3", "image": "app:3"}]}}}});
    let strategic = || c5c3_fields::strategic_merge_patch(&shape, &live, &patch);
    println!("strategic merge patch:    {:?}", median(|| drop(black_box(strategic()))));
    println!("clone of the live object: {:?}", median(|| drop(black_box(live.clone()))));
}
