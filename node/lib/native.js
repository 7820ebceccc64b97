"use strict";

// The native half is a package of its own for each platform; npm installs the one that fits.

/** Which of them fits here: musl has no report of the GNU C library's version. */
function platform() {
  const name = `${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return name;
  return `${name}-${process.report.getReport().header.glibcVersionRuntime ? "gnu" : "musl"}`;
}

const name = `@groupcommit/${platform()}`;
try {
  module.exports = require(name);
} catch (cause) {
  const { optionalDependencies } = require("../package.json");
  const reason =
    name in optionalDependencies
      ? `${name} is not installed; install groupcommit again, without --omit=optional`
      : `there is no build for this platform (${name.slice("@groupcommit/".length)})`;
  throw new Error(`groupcommit cannot be loaded: ${reason}`, { cause });
}
