// Makes one module of the editor, and the licences of what is in it: node bundle.mjs FOLDER
import { readFile, readdir, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const [folder] = process.argv.slice(2);
const { metafile } = await build({
  entryPoints: ["editor.js"],
  outfile: `${folder}/codemirror.js`,
  bundle: true,
  format: "esm",
  minify: true,
  target: "es2023",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  banner: { js: "// Made by `cargo xtask vendor` of xtask/vendor/editor.js and what it imports, whose licences stand in codemirror.LICENSES." },
});

// Of what is in the bundle: much is installed beside it that is not.
const [{ inputs }] = Object.values(metafile.outputs);
const used = Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
const packages = new Set(used.flatMap((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
let told = "What codemirror.js is made of, but for the files of xtask/vendor.\n";
for (const name of [...packages].sort()) {
  const home = `node_modules/${name}`;
  const { version, license } = JSON.parse(await readFile(`${home}/package.json`, "utf8"));
  const file = (await readdir(home)).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${name} has no licence`);
  told += `\n--- ${name} ${version} (${license})\n\n${(await readFile(`${home}/${file}`, "utf8")).trim()}\n`;
}
await writeFile(`${folder}/codemirror.LICENSES`, told);
