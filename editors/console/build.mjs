// Builds the editor of the console into one file. Run where its packages are installed; the argument is the file to write.
import { build } from "esbuild";

await build({
  entryPoints: ["src/editor.js"],
  outfile: process.argv[2],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  charset: "utf8",
  banner: { js: "/* Made from editors/console by build.mjs: CodeMirror 6 and our own code. Licences: LICENSE-codemirror.txt, Apache-2.0. */" },
});
