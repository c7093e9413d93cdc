//! Load on one path: so many connections, each with one call under way, for a span of time.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Failure,
    client::{Client, Request},
};

/// What every kind of echo is sent.
pub(crate) const INPUT: &str = r#"{"text":"the quick brown fox","numbers":[1,2,3],"nested":{"flag":true}}"#;
pub(crate) const CONNECTIONS: [usize; 2] = [1, 16];

/// How long the calls of one run took.
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

    /// What it was made of.
    pub(crate) fn into_parts(self) -> (Vec<Duration>, Duration) {
        (self.taken, self.span)
    }

    pub(crate) fn calls(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.taken.len() as f64 / self.span.as_secs_f64()
    }

    /// The time that this share of the calls stayed within; zero when there was none.
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

/// Runs the load of each subject for `seconds`, in turns of one second: what the machine does beside it, and how fast it is
/// meanwhile, then falls on all of them alike. The first turn of each warms up and does not count.
///
/// # Errors
///
/// The first answer that was not 200.
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

/// Runs the load, a connection for each of `requests`.
///
/// # Errors
///
/// The first answer that was not 200.
pub(crate) fn run_each(address: SocketAddr, requests: &[Request], span: Duration) -> Result<Figures, Failure> {
    let began = Instant::now();
    let runs: Vec<_> = requests
        .iter()
        .cloned()
        .map(|request| thread::spawn(move || repeat(address, &request, began + span).map_err(|why| why.to_string())))
        .collect();
    let mut taken = Vec::new();
    for run in runs {
        taken.extend(run.join().map_err(|_| "a connection's thread broke")??);
    }
    Ok(Figures::of(taken, began.elapsed()))
}

/// Sends each of `requests` over a connection of its own, so many times a second, for as long as the span says.
///
/// # Errors
///
/// The first answer that was not 200.
pub(crate) fn run_paced(address: SocketAddr, requests: &[Request], pace: f64, span: Duration) -> Result<Figures, Failure> {
    let began = Instant::now();
    let calls_of = |request: &Request| {
        let (mut client, mut taken) = (Client::connect(address)?, Vec::new());
        while began.elapsed() < span {
            taken.push(client.timed(request)?);
            let due = Duration::from_secs_f64(taken.len() as f64 / pace);
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        Ok::<_, Failure>(taken)
    };
    let taken = thread::scope(|scope| {
        let calls: Vec<_> = requests.iter().map(|request| scope.spawn(move || calls_of(request).map_err(|why| why.to_string()))).collect();
        calls.into_iter().map(|calls| calls.join().map_err(|_| "a connection's thread broke".to_owned())?).collect::<Result<Vec<_>, _>>()
    });
    Ok(Figures::of(taken?.concat(), began.elapsed()))
}

fn repeat(address: SocketAddr, request: &Request, end: Instant) -> Result<Vec<Duration>, Failure> {
    let mut client = Client::connect(address)?;
    let mut taken = Vec::new();
    while Instant::now() < end {
        taken.push(client.timed(request)?);
    }
    Ok(taken)
}

/// Sends each list on a connection of its own, one request after the other: for requests that can be sent once. How long those took
/// that were answered with 200, and how many were not, or not in time.
///
/// # Errors
///
/// No connection.
pub(crate) fn run_lists(address: SocketAddr, lists: &[Vec<Request>]) -> Result<(Figures, usize), Failure> {
    let began = Instant::now();
    let runs: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = lists.iter().map(|list| scope.spawn(move || send_all(address, list).map_err(|why| why.to_string()))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a connection's thread broke".to_owned()))).collect()
    });
    let span = began.elapsed();
    let taken = runs.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let asked: usize = lists.iter().map(Vec::len).sum();
    let refused = asked - taken.len();
    Ok((Figures::of(taken, span), refused))
}

fn send_all(address: SocketAddr, list: &[Request]) -> Result<Vec<Duration>, Failure> {
    let mut client = Client::connect(address)?;
    let mut taken = Vec::with_capacity(list.len());
    for request in list {
        let began = Instant::now();
        match client.ask(request) {
            Ok(200) => taken.push(began.elapsed()),
            Ok(_) => {}
            Err(_) => client = Client::connect(address)?,
        }
    }
    Ok(taken)
}

/// The median and the 99th percentile, as a table has them.
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
