/** Where the server is, if it is not where the page came from: set by `npm run dev`. */
declare const SERVER: string | undefined;

declare module "*.css";
