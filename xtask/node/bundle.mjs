// Makes the portable forms of Node's modules, and the licenses of their packages: node bundle.mjs FOLDER
import { readFile, readdir, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const [folder] = process.argv.slice(2);
// Each file of `modules` is one of Node's modules, except those that only the others require.
const INTERNAL = ["absent", "equal"];
const files = (await readdir("modules")).map((file) => file.replace(/\.cjs$/, "")).filter((name) => !INTERNAL.includes(name)).sort();
const NAMES = { "assert-strict": "assert/strict", "path-posix": "path/posix", "stream-consumers": "stream/consumers", "stream-promises": "stream/promises", "stream-web": "stream/web", "timers-promises": "timers/promises", "util-types": "util/types" };
const names = new Set(files.map((file) => NAMES[file] ?? file));

// Modules require each other by name, so that a bundle has each of them once. A name that ends with a slash in one of our
// files is the package of that name.
const external = {
  name: "external",
  setup({ onResolve }) {
    onResolve({ filter: /^(node:)?[a-z_]+(\/[a-z]*)?$/ }, ({ path, importer }) => {
      const isOurs = !importer.includes("node_modules");
      const name = path.replace(/^node:/, "").replace(/\/$/, "");
      return names.has(name) && !(isOurs && path.endsWith("/")) ? { path: name, external: true } : undefined;
    });
    onResolve({ filter: /^abort-controller$/ }, () => ({ path: "abort-controller", namespace: "global" }));
  },
};
const globals = {
  name: "globals",
  setup({ onLoad }) {
    onLoad({ filter: /.*/, namespace: "global" }, () => ({ contents: "module.exports = { AbortController: globalThis.AbortController, AbortSignal: globalThis.AbortSignal };" }));
  },
};

// The package expects `Atomics`, which tools lack, and keeps a reference to `eval`, which reviewers would ask about.
const PATCHES = [['["Atomics","JSON",', '["JSON",'], ["[escape,eval,unescape]", "[escape,unescape]"]];
const patches = {
  name: "patches",
  setup({ onLoad }) {
    onLoad({ filter: /node-inspect-extracted\/dist\/inspect\.js$/ }, async ({ path }) => {
      let contents = await readFile(path, "utf8");
      for (const [from, to] of PATCHES) {
        if (!contents.includes(from)) throw new Error(`node-inspect-extracted has no ${from}`);
        contents = contents.replace(from, to);
      }
      return { contents };
    });
  },
};

const texts = {};
const used = new Set();
for (const file of files) {
  const { outputFiles, metafile } = await build({
    entryPoints: [`modules/${file}.cjs`],
    write: false,
    bundle: true,
    format: "cjs",
    platform: "browser",
    minify: true,
    keepNames: true,
    lineLimit: 120,
    target: "es2023",
    charset: "ascii",
    define: { global: "globalThis" },
    legalComments: "none",
    metafile: true,
    plugins: [external, globals, patches],
  });
  texts[NAMES[file] ?? file] = outputFiles[0].text;
  for (const [path, { bytesInOutput }] of Object.entries(Object.values(metafile.outputs)[0].inputs)) if (bytesInOutput > 0) used.add(path);
}
await writeFile(`${folder}/node.json`, `${JSON.stringify(texts, null, 1)}\n`);

// Packages can be installed without being part of a module.
const packages = new Set([...used].flatMap((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
let licenses = "The licenses of the packages in node.json. The other modules in it are those of xtask/node.\n";
for (const name of [...packages].sort()) {
  const home = `node_modules/${name}`;
  const { version, license } = JSON.parse(await readFile(`${home}/package.json`, "utf8"));
  const file = (await readdir(home)).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no license`);
  licenses += `\n--- ${name} ${version} (${license})\n\n${(await readFile(`${home}/${file}`, "utf8")).trim()}\n`;
}
await writeFile(`${folder}/node.LICENSES`, licenses);
