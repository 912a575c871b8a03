// Writes down of which sources dist/ was built, so that a test can say when it is out of date without npm.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const sources = readdirSync("src", { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name));
const others = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
const hash = createHash("sha256");
for (const path of [...sources, ...others].sort()) {
  hash.update(path).update("\0").update(readFileSync(path)).update("\0");
}
writeFileSync("dist/sources.sha256", `${hash.digest("hex")}\n`);
