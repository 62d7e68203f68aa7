// Serves a stateful GitHub on loopback until its standard input ends; the first line it writes is its address.
// Arguments: the module to load, and what is in it at first (JSON).
// The module's own command is not used: it needs a newer Node than its library does.
import { pathToFileURL } from "node:url";

const [, , module, content] = process.argv;
const { createEmulator } = await import(pathToFileURL(module).href);
const server = await createEmulator({ service: "github", port: 0, seed: JSON.parse(content) });
process.stdout.write(`${server.url}\n`);
process.stdin.on("end", async () => {
  await server.close();
  process.exit(0);
});
process.stdin.resume();
