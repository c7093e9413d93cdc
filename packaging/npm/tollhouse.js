#!/usr/bin/env node
// Starts the program in the package of this platform, with the same arguments, streams and signals.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;

function programPath() {
  try {
    return require.resolve(`@tollhouse/${platform}/bin/tollhouse`);
  } catch {
    console.error(
      `tollhouse: the package @tollhouse/${platform} is missing.\n` +
        "If your platform is one of https://www.npmjs.com/search?q=%40tollhouse, install again without --omit=optional.",
    );
    process.exit(1);
  }
}

const program = programPath();
const args = process.argv.slice(2);

// Since version 22.15, Node.js can replace itself with the program.
if (process.execve) {
  process.execve(program, [program, ...args], process.env);
}

const child = spawn(program, args, { stdio: "inherit" });
const isTerminal = process.stdin.isTTY;
for (const signal of ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    // A terminal sends these two to the program itself.
    if (!isTerminal || (signal !== "SIGINT" && signal !== "SIGQUIT")) child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`tollhouse: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
