// Imports a package as this folder has it installed.
export default (name) => import(name);
