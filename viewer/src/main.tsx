import { render } from "preact";
import { App } from "./App";
import { applyTheme } from "./theme";

applyTheme();
const root = document.getElementById("viewer");
if (root !== null) {
  render(<App />, root);
}
