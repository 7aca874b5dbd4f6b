import * as ai from "ai";
import { cases } from "./transport.js";

cases("7", ai);
