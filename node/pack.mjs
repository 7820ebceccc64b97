// Builds the packages for npm: `groupcommit`, and the native half for this platform.
//
//     node node/pack.mjs OUT
//
// The two archives are left in the folder OUT.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = resolve(here, "..");
const out = resolve(process.argv[2] ?? "packages");
const licences = ["LICENSE-APACHE", "LICENSE-MIT"];

const main = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
const [, version] = readFileSync(join(root, "Cargo.toml"), "utf8").match(/^version = "(.+)"$/m);
for (const [name, written] of Object.entries({ [main.name]: main.version, ...main.optionalDependencies })) {
  if (written !== version) throw new Error(`package.json says ${name} ${written}, but the crates are ${version}`);
}

execFileSync("cargo", ["build", "--quiet", "--release", "--package", "groupcommit-node"], { cwd: root, stdio: "inherit" });
const built = resolve(root, process.env.CARGO_TARGET_DIR ?? "target", "release");

rmSync(out, { recursive: true, force: true });
const { platform, arch } = process;
const isLinux = platform === "linux";
const name = `@groupcommit/${platform}-${arch}${isLinux ? "-gnu" : ""}`;
if (!(name in main.optionalDependencies)) throw new Error(`${name} is not in optionalDependencies`);
pack("platform", (folder) => {
  copyFileSync(join(built, `libgroupcommit_node.${isLinux ? "so" : "dylib"}`), join(folder, "groupcommit.node"));
  execFileSync("strip", isLinux ? ["groupcommit.node"] : ["-x", "groupcommit.node"], { cwd: folder });
  const { license, repository, engines } = main;
  const description = `The native half of groupcommit for ${platform}-${arch}`;
  const libc = isLinux ? { libc: ["glibc"] } : {};
  const fits = { os: [platform], cpu: [arch], ...libc };
  return { name, version, description, license, repository, engines, ...fits, main: "groupcommit.node", files: ["groupcommit.node"] };
});
pack("groupcommit", (folder) => {
  for (const file of [...main.files, "README.md"]) cpSync(join(here, file), join(folder, file), { recursive: true });
  return main;
});

/** Packs a folder that `fill` fills, with the package.json that it returns. */
function pack(label, fill) {
  const folder = join(out, label);
  mkdirSync(folder, { recursive: true });
  for (const licence of licences) copyFileSync(join(root, licence), join(folder, licence));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(fill(folder), null, 2)}\n`);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", out], { cwd: folder, stdio: "inherit" });
}
