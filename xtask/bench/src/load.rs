//! Load generator: a number of connections, each with one call at a time, for a time span.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Failure,
    client::{Client, Request},
};

/// The input of every kind of echo.
pub(crate) const INPUT: &str = r#"{"text":"the quick brown fox","numbers":[1,2,3],"nested":{"flag":true}}"#;
pub(crate) const CONNECTIONS: [usize; 2] = [1, 16];

/// Durations of the calls of one run.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Ascending.
    taken: Vec<Duration>,
    span: Duration,
}

impl Figures {
    pub(crate) fn of(mut taken: Vec<Duration>, span: Duration) -> Self {
        taken.sort_unstable();
        Self { taken, span }
    }

    /// Returns the durations and the time span.
    pub(crate) fn into_parts(self) -> (Vec<Duration>, Duration) {
        (self.taken, self.span)
    }

    pub(crate) fn calls(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.taken.len() as f64 / self.span.as_secs_f64()
    }

    /// Returns the duration that this share of the calls did not exceed, or zero without calls.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let rank = (self.taken.len() as f64 * share).ceil() as usize;
        self.taken.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// A path under load.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) what: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) request: Request,
}

/// Runs the load of each subject for `seconds`, in turns of one second, so that other activity and
/// speed changes of the machine affect all alike. The first turn of each is a warm-up and does not
/// count.
pub(crate) fn in_turns(subjects: &[Subject], connections: usize, seconds: u64) -> Result<Vec<Figures>, Failure> {
    let mut sums = vec![(Vec::new(), Duration::ZERO); subjects.len()];
    for turn in 0..=seconds {
        for (subject, sum) in subjects.iter().zip(&mut sums) {
            let requests = vec![subject.request.clone(); connections];
            let Figures { taken, span } = run_each(subject.address, &requests, Duration::from_secs(1))?;
            if turn > 0 {
                sum.0.extend(taken);
                sum.1 += span;
            }
        }
    }
    Ok(sums.into_iter().map(|(taken, span)| Figures::of(taken, span)).collect())
}

/// Runs the load with one connection for each of `requests`.
pub(crate) fn run_each(address: SocketAddr, requests: &[Request], span: Duration) -> Result<Figures, Failure> {
    let started = Instant::now();
    let runs: Vec<_> = requests
        .iter()
        .cloned()
        .map(|request| thread::spawn(move || repeat(address, &request, started + span).map_err(|reason| reason.to_string())))
        .collect();
    let mut taken = Vec::new();
    for run in runs {
        taken.extend(run.join().map_err(|_| "a connection's thread broke")??);
    }
    Ok(Figures::of(taken, started.elapsed()))
}

/// Sends each of `requests` on its own connection, at a rate per second, for the time span.
pub(crate) fn run_paced(address: SocketAddr, requests: &[Request], pace: f64, span: Duration) -> Result<Figures, Failure> {
    let started = Instant::now();
    let calls_of = |request: &Request| {
        let (mut client, mut taken) = (Client::connect(address)?, Vec::new());
        while started.elapsed() < span {
            taken.push(client.timed(request)?);
            let due = Duration::from_secs_f64(taken.len() as f64 / pace);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
        Ok::<_, Failure>(taken)
    };
    let taken = thread::scope(|scope| {
        let calls: Vec<_> =
            requests.iter().map(|request| scope.spawn(move || calls_of(request).map_err(|reason| reason.to_string()))).collect();
        calls.into_iter().map(|calls| calls.join().map_err(|_| "a connection's thread broke".to_owned())?).collect::<Result<Vec<_>, _>>()
    });
    Ok(Figures::of(taken?.concat(), started.elapsed()))
}

fn repeat(address: SocketAddr, request: &Request, end: Instant) -> Result<Vec<Duration>, Failure> {
    let mut client = Client::connect(address)?;
    let mut taken = Vec::new();
    while Instant::now() < end {
        taken.push(client.timed(request)?);
    }
    Ok(taken)
}

/// Sends each list on its own connection, one request after the other, for requests that can be
/// sent only once. Returns the durations of answers with 200, and the number of other or missing
/// answers.
pub(crate) fn run_lists(address: SocketAddr, lists: &[Vec<Request>]) -> Result<(Figures, usize), Failure> {
    let started = Instant::now();
    let runs: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> =
            lists.iter().map(|list| scope.spawn(move || send_all(address, list).map_err(|reason| reason.to_string()))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a connection's thread broke".to_owned()))).collect()
    });
    let span = started.elapsed();
    let taken = runs.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let request: usize = lists.iter().map(Vec::len).sum();
    let refused = request - taken.len();
    Ok((Figures::of(taken, span), refused))
}

fn send_all(address: SocketAddr, list: &[Request]) -> Result<Vec<Duration>, Failure> {
    let mut client = Client::connect(address)?;
    let mut taken = Vec::with_capacity(list.len());
    for request in list {
        let started = Instant::now();
        match client.ask(request) {
            Ok(200) => taken.push(started.elapsed()),
            Ok(_) => {}
            Err(_) => client = Client::connect(address)?,
        }
    }
    Ok(taken)
}

/// Formats the median and the 99th percentile for a table.
pub(crate) fn latencies(figures: &Figures) -> String {
    let shown = |quantile| format!("{:>8.0} µs", figures.quantile(quantile).as_secs_f64() * 1e6);
    format!("{}{}", shown(0.5), shown(0.99))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let figures = Figures::of((1..=100).rev().map(Duration::from_micros).collect(), Duration::from_secs(2));
        assert_eq!(figures.quantile(0.5), Duration::from_micros(50));
        assert_eq!(figures.quantile(0.99), Duration::from_micros(99));
        assert_eq!(figures.per_second(), 50.0);
        assert_eq!(Figures::of(Vec::new(), Duration::from_secs(1)).quantile(0.5), Duration::ZERO);
    }
}
