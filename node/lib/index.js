"use strict";

const { Database, open } = require("./database.js");
const errors = require("./errors.js");

module.exports = { Database, open, ...errors };
