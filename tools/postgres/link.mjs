// Makes the links that npm packages can't carry: of the shared libraries, under the names that the programs
// ask for. Usage: node link.mjs FOLDER, where FOLDER/native/pg-symlinks.json lists them.
import { lstatSync, readFileSync, symlinkSync, unlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const folder = process.argv[2];
const links = JSON.parse(readFileSync(join(folder, "native", "pg-symlinks.json"), "utf8"));
for (const { source, target } of links) {
  const link = join(folder, target);
  if (lstatSync(link, { throwIfNoEntry: false })) unlinkSync(link);
  symlinkSync(relative(dirname(target), source), link);
}
