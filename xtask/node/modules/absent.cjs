// Members of Node's modules that tools do not have: they load, and throw when they are used.
exports.absent = (name, hint) => function absent() {
  const error = new Error(`Node's ${name} is not available in tools: ${hint}`);
  error.code = "ERR_METHOD_NOT_IMPLEMENTED";
  throw error;
};
