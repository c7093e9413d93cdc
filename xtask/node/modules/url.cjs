module.exports = { ...require("unenv/node/url") };
