// The package itself: its types, both ways to load it, and every example of its documentation.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import * as imported from "groupcommit";

const app = fileURLToPath(new URL("..", import.meta.url));
const tsc = (files) => {
  const strict = ["--noEmit", "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
  const target = ["--target", "es2022", "--lib", "es2022,esnext.disposable", "--types", "node"];
  execFileSync("npx", ["tsc", ...strict, ...target, "--module", "node16", "--moduleResolution", "node16", ...files], { cwd: app, stdio: "inherit" });
};

test("both ways to load it give the same", () => {
  const required = createRequire(import.meta.url)("groupcommit");
  for (const name of Object.keys(required)) assert.equal(imported[name], required[name], name);
  assert.deepEqual(Object.keys(imported).filter((name) => name !== "default").sort(), Object.keys(required).sort());
});

test("the types", () => {
  tsc(["tests/types.ts", "tests/required.cts"]);
});

for (const document of readdirSync(`${app}docs`)) {
  const blocks = readFileSync(`${app}docs/${document}`, "utf8").matchAll(/^```(js|ts|cjs)\n(.*?)^```$/gms);
  for (const [number, [, language, code]] of [...blocks].entries()) {
    test(`${document}: example ${number + 1}`, () => {
      const folder = `${app}examples-run/${document}-${number}`;
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { recursive: true });
      const file = `${folder}/example.${{ js: "mjs", ts: "mts", cjs: "cjs" }[language]}`;
      writeFileSync(file, code);
      if (language === "ts") tsc([file]);
      else execFileSync(process.execPath, [file], { cwd: folder, timeout: 60_000, stdio: ["ignore", "ignore", "inherit"] });
    });
  }
}
