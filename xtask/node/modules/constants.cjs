// Node's `constants`: https://nodejs.org/api/os.html#os-constants
module.exports = { ...require("os").constants.errno, ...require("os").constants.signals };
