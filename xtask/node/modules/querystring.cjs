module.exports = { ...require("unenv/node/querystring") };
