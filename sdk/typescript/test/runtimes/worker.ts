// The program of workerd: options as a binding, the report as a line of output.

import { check, type Options } from "./program.js";

export default {
  async test(_: unknown, { OPTIONS }: { readonly OPTIONS: Options }) {
    console.log(JSON.stringify(await check(OPTIONS)));
  },
};
