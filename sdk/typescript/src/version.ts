/** This client, in the header `Threadline-Client`. A test compares the version with that of the package. */
export const CLIENT = "js/0.1.0";
