//! Process metrics of the operating system, read on demand. The names are those of all Prometheus clients.

use std::{
    fmt, fs,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

/// Collector of process metrics.
#[derive(Debug)]
pub struct Process {
    started: f64,
}

impl Process {
    /// Metrics of a process that starts now.
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: now.as_secs_f64() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut put = |name: &str, help: &str, value: f64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        put("process_start_time_seconds", "When this node was started, in seconds since 1970", self.started)?;
        // Only Linux provides these; on other systems they are absent.
        if let Some(bytes) = resident_bytes() {
            put("process_resident_memory_bytes", "Memory that the process has in RAM", bytes)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            put("process_open_fds", "Files and connections that are open", files.count() as f64)?;
        }
        if let Ok((soft, _)) = rlimit::getrlimit(rlimit::Resource::NOFILE) {
            put("process_max_fds", "Files and connections that may be open", soft as f64)?;
        }
        Ok(())
    }
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024.0)
}
