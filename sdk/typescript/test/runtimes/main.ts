// The program of Node, Bun and Deno: options as the last argument, the report as a line of output.

import { check, type Options } from "./program.js";

declare const process: { readonly argv: readonly string[] };
declare const Deno: { readonly args: readonly string[] } | undefined;

const args = typeof Deno === "undefined" ? process.argv : Deno.args;
console.log(JSON.stringify(await check(JSON.parse(args.at(-1)!) as Options)));
