//! The baseline for comparisons: one axum route that parses JSON and returns it, in a separate
//! process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use axum::{Json, Router, routing::post};
use serde_json::Value;

use crate::Failure;

/// The hidden command that serves the route.
pub(crate) const COMMAND: &str = "--bare";

/// The running route. Dropping it ends the process.
pub(crate) struct Bare {
    child: Child,
    address: SocketAddr,
}

impl Bare {
    pub(crate) fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?).arg(COMMAND).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe from the bare route")?).read_line(&mut line)?;
        Ok(Self { child, address: line.trim().parse()? })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Serves the route. Prints its address to standard output.
pub(crate) fn serve() -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        let router = Router::new().route("/echo", post(async |Json(input): Json<Value>| Json(input)));
        Ok(axum::serve(listener, router).await?)
    })
}
