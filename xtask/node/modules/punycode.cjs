module.exports = require("punycode/");
