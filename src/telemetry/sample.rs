//! Values of metrics at one moment.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{histogram::HistogramSnapshot, metric_table::Metric};

/// A function that collects all samples.
pub type Gather = Arc<dyn Fn() -> BoxFuture<'static, Samples> + Send + Sync>;

/// Values of metrics, grouped by metric.
#[derive(Debug, Default)]
pub struct Samples(pub(super) Vec<(&'static Metric, Vec<Sample>)>);

/// One value of a metric.
#[derive(Debug)]
pub(super) struct Sample {
    /// Values of its labels, in order.
    pub(super) labels: Vec<&'static str>,
    pub(super) value: MetricValue,
}

#[derive(Debug)]
pub(super) enum MetricValue {
    Number(f64),
    Shape(HistogramSnapshot),
}

impl Samples {
    /// Adds a value with these labels. They come from fixed lists, which is why they are `'static`.
    pub fn put<const L: usize>(&mut self, metric: &'static Metric, labels: [&'static str; L], value: impl Into<SampleValue>) {
        self.add(metric, labels.to_vec(), MetricValue::Number(value.into().0));
    }

    pub(super) fn put_shape(&mut self, metric: &'static Metric, labels: Vec<&'static str>, shape: HistogramSnapshot) {
        self.add(metric, labels, MetricValue::Shape(shape));
    }

    pub(super) fn add(&mut self, metric: &'static Metric, labels: Vec<&'static str>, value: MetricValue) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let sample = Sample { labels, value };
        match self.0.iter_mut().find(|(known, _)| std::ptr::eq(*known, metric)) {
            Some((_, samples)) => samples.push(sample),
            None => self.0.push((metric, vec![sample])),
        }
    }
}

/// A number as metrics represent it.
#[derive(Debug, Clone, Copy)]
pub struct SampleValue(f64);

impl From<f64> for SampleValue {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<bool> for SampleValue {
    fn from(value: bool) -> Self {
        Self(f64::from(u8::from(value)))
    }
}

impl From<u64> for SampleValue {
    #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the last digits are of no interest")]
    fn from(value: u64) -> Self {
        Self(value as f64)
    }
}

impl From<u128> for SampleValue {
    #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the last digits are of no interest")]
    fn from(value: u128) -> Self {
        Self(value as f64)
    }
}

impl From<usize> for SampleValue {
    fn from(value: usize) -> Self {
        u64::try_from(value).unwrap_or(u64::MAX).into()
    }
}
