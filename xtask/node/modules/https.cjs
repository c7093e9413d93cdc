module.exports = require("http");
