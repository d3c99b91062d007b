import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

/** Returns the licence of a bundled package as a comment, which its licence asks copies to contain. */
function licence(name: string): string {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as { version: string };
  const text = readFileSync(new URL("LICENSE", folder), "utf8").trim();
  return `/*! This file contains ${name} ${version}.\n\n${text}\n*/`;
}

export default defineConfig({
  base: "./",
  publicDir: false,
  build: {
    outDir: "../target/dashboard",
    emptyOutDir: true,
    target: "es2022",
    // Files of their own: the console's Content-Security-Policy allows no `data:` addresses and no inline code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { output: { postBanner: licence("uplot") } },
  },
});
