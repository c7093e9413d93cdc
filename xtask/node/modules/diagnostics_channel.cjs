module.exports = require("unenv/node/diagnostics_channel").default;
