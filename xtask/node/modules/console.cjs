// Node's `console`, of which tools have the part that the web has.
class Console {
  constructor() {
    return Object.create(console);
  }
}
module.exports = Object.assign(Object.create(console), { Console });
