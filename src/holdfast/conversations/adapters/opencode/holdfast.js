// Hands what happens in opencode over to Holdfast, which keeps the session.
//
// Put here by `holdfast connect opencode`, taken away by `holdfast disconnect opencode`; edits do not last. Nothing in
// here holds opencode up: payloads go to a command in the background, one after the other, and where an answer is
// wanted (a conversation's first prompt, each prompt, before a compression) opencode waits a second at most. Where
// Holdfast is gone, the commands do nothing.

import { spawn, spawnSync } from "node:child_process"

const TELL = "@tell@"
const STIR = "@stir@"
const ASK = "@ask@"

const PATIENCE = 1000 // ms
const MOST = 1000 // payloads that wait, conversations remembered
const LONGEST = 20000 // characters of what somebody said

export const Holdfast = async ({ client, directory }) => {
  const known = new Map() // what is remembered of each conversation, by its id
  const windows = new Map() // how large a model's context is
  const began = new Map() // when a tool call began
  const waiting = [] // payloads, in order
  let busy = false

  // ── handing over ───────────────────────────────────────────────────────────────────────────────────────

  const options = { shell: true, windowsHide: true, detached: process.platform !== "win32" }

  const begin = ({ command, text, heard }) =>
    new Promise((resolve) => {
      let said = ""
      const done = () => {
        clearTimeout(timer)
        heard?.(said)
        resolve()
      }
      const timer = setTimeout(done, PATIENCE)
      timer.unref?.()
      try {
        const child = spawn(command, { ...options, stdio: ["pipe", heard ? "pipe" : "ignore", "ignore"] })
        child.on("error", done)
        child.on("close", done)
        child.stdin.on("error", () => {})
        child.stdout?.on("data", (piece) => {
          if (said.length < 100000) said += piece
        })
        child.stdin.end(text)
        child.unref()
      } catch {
        done()
      }
    })

  const work = async () => {
    if (busy) return
    busy = true
    while (waiting.length) await begin(waiting.shift())
    busy = false
  }

  const hand = (command, payload, heard) => {
    let text
    try {
      text = JSON.stringify(payload)
    } catch {
      return heard?.("")
    }
    if (waiting.length >= MOST) waiting.shift()?.heard?.("")
    waiting.push({ command, text, heard })
    void work()
  }

  const ask = (payload) =>
    new Promise((resolve) => {
      const timer = setTimeout(() => resolve({}), PATIENCE)
      hand(ASK, payload, (said) => {
        clearTimeout(timer)
        try {
          resolve(JSON.parse(said) ?? {})
        } catch {
          resolve({})
        }
      })
    })

  // ── what is known of a conversation ────────────────────────────────────────────────────────────────────

  const remember = (map, key, value) => {
    if (map.size >= MOST) map.delete(map.keys().next().value)
    map.set(key, value)
    return value
  }

  const conversation = (id, info) => {
    const one = known.get(id) ?? remember(known, id, {})
    if (info?.parentID) one.parent = info.parentID
    if (info?.directory) one.directory = info.directory
    if (typeof info?.cost === "number") one.cost = info.cost
    if (info?.title) one.title = info.title
    return one
  }

  // A subagent is a conversation of its own below the one that called it.
  const root = (id) => {
    for (let depth = 0; depth < 20; depth += 1) {
      const parent = known.get(id)?.parent
      if (!parent) break
      id = parent
    }
    return id
  }

  const payload = (name, id, more) => {
    const top = root(id)
    return {
      hook_event_name: name,
      session_id: top,
      agent_id: top === id ? undefined : id,
      cwd: known.get(id)?.directory ?? directory,
      ...more,
    }
  }

  const cut = (text) => (typeof text === "string" ? text.slice(0, LONGEST) : undefined)

  const named = (model) => {
    const name = model?.modelID ?? model?.id
    return name ? `${model.providerID}/${name}` : undefined
  }

  // ── the event bus ──────────────────────────────────────────────────────────────────────────────────────

  const created = (event, info) => {
    const one = conversation(info.id, info)
    const more = { event_id: event.id, title: info.title, model: named(info.model), agent_type: info.agent }
    const said = payload("session.created", info.id, { ...more, version: info.version })
    if (one.parent) return hand(STIR, said)
    one.opened = true
    // Nobody waits now: the answer is for the first prompt.
    one.start = ask(said)
  }

  const answered = (event, info) => {
    if (info.role !== "assistant" || !info.time?.completed) return
    const one = conversation(info.sessionID)
    if (one.message === info.id) return
    one.message = info.id
    one.tokens = info.tokens
    const model = named(info)
    hand(
      TELL,
      payload("message.updated", info.sessionID, {
        message_id: info.id, model, mode: info.mode, tokens: info.tokens, window: windows.get(model), cost: one.cost,
        finish: info.finish, summary: info.summary === true, error: info.error,
      }),
    )
  }

  const parted = (part) => {
    const one = conversation(part.sessionID)
    if (part.type === "text" && part.time?.end && !part.synthetic) one.said = cut(part.text)
    // A call that fails reaches no `tool.execute.after`.
    if (part.type !== "tool" || part.state?.status !== "error") return
    hand(
      TELL,
      payload("tool.execute.error", part.sessionID, {
        tool: part.tool, call_id: part.callID, args: part.state.input, error: cut(String(part.state.error)),
        took_ms: part.state.time ? part.state.time.end - part.state.time.start : undefined,
      }),
    )
  }

  const happened = (event) => {
    const about = event.properties ?? {}
    const name = String(event.type).replace(".v2.", ".")
    const id = about.sessionID ?? about.info?.id
    switch (name) {
      case "session.created":
        return created(event, about.info)
      case "session.updated":
        return void conversation(about.info.id, about.info)
      case "message.updated":
        return answered(event, about.info)
      case "message.part.updated":
        return parted(about.part)
      case "session.error":
        if (!id) return
        conversation(id).error = about.error
        return hand(TELL, payload(name, id, { event_id: event.id, error: about.error }))
      case "session.idle": {
        const { said, error, cost, title, tokens } = conversation(id)
        Object.assign(conversation(id), { said: undefined, error: undefined })
        return hand(STIR, payload(name, id, { event_id: event.id, reply: said, error, cost, title, tokens }))
      }
      case "session.compacted":
      case "session.deleted":
      case "todo.updated":
      case "permission.asked":
      case "permission.updated":
      case "permission.replied":
      case "question.asked":
      case "question.replied":
      case "question.rejected": {
        const { info, sessionID, ...more } = about
        if (id) hand(TELL, payload(name, id, { event_id: event.id, ...more }))
      }
    }
  }

  // ── the end ────────────────────────────────────────────────────────────────────────────────────────────

  const close = () => {
    for (const [id, one] of known)
      if (one.opened && !one.parent) hand(STIR, payload("session.closed", id, { cost: one.cost }))
    known.clear()
  }

  // Nothing waits for the background any more: what is left is handed over now, or never.
  const leave = () => {
    close()
    const last = Date.now() + 2 * PATIENCE
    for (const { command, text } of waiting.splice(0)) {
      if (Date.now() > last) return
      spawnSync(command, { ...options, detached: false, input: text, stdio: ["pipe", "ignore", "ignore"], timeout: PATIENCE })
    }
  }

  const safe =
    (what) =>
    async (...given) => {
      try {
        return await what(...given)
      } catch {
        // Whatever is wrong here is no reason to stop anybody's work.
      }
    }

  const leaving = () => {
    try {
      leave()
    } catch {
      // as above
    }
  }
  process.once("exit", leaving)

  // ── opencode's hooks ───────────────────────────────────────────────────────────────────────────────────

  const prompted = async ({ sessionID, agent, model }, { message, parts }) => {
    const one = conversation(sessionID)
    const said = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
    const about = payload("chat.message", sessionID, {
      message_id: message.id,
      prompt: cut(said.map((part) => part.text).join("\n")),
      person: said.length > 0,
      model: named(message.model ?? model),
      mode: message.agent ?? agent,
    })
    if (one.parent) return void hand(TELL, about)
    if (!one.opened) {
      one.opened = true
      one.start = ask(payload("session.resumed", sessionID, {}))
    }
    const start = one.start
    one.start = undefined
    const answers = await Promise.all([start, ask(about)])
    const context = answers.map((one) => one?.context).filter((text) => typeof text === "string" && text)
    const says = answers.map((one) => one?.say).filter((text) => typeof text === "string" && text)
    if (context.length)
      parts.push({
        id: `${parts.at(-1)?.id ?? "prt_"}z`, // parts stand in the order of their ids
        sessionID,
        messageID: message.id,
        type: "text",
        text: context.join("\n\n"),
        synthetic: true,
      })
    const block = answers.map((one) => one?.block).find((text) => typeof text === "string" && text)
    // An error is shown without its words.
    for (const text of block ? [block] : says)
      void client?.tui?.showToast?.({ body: { title: "Holdfast", message: text, variant: "info" } })?.catch?.(() => {})
    return block
  }

  return {
    event: safe(({ event }) => happened(event)),
    "chat.message": async (input, output) => {
      const block = await safe(prompted)(input, output)
      if (block) throw new Error(block) // the person chose to be held back
    },
    "chat.params": safe(({ model }) => {
      if (model?.limit?.context) remember(windows, named(model), model.limit.context)
    }),
    "command.execute.before": safe(({ sessionID, command, arguments: words }) =>
      hand(TELL, payload("command.execute.before", sessionID, { command, arguments: cut(words), at: Date.now() })),
    ),
    "tool.execute.before": safe(({ tool, sessionID, callID }, { args }) => {
      remember(began, callID, Date.now())
      const task = tool === "task" ? { args } : {}
      hand(TELL, payload("tool.execute.before", sessionID, { tool, call_id: callID, ...task }))
    }),
    "tool.execute.after": safe(({ tool, sessionID, callID, args }, { title, metadata, output }) => {
      const { diff, diagnostics, output: printed, preview, ...meta } = metadata ?? {}
      const took_ms = began.has(callID) ? Date.now() - began.get(callID) : undefined
      began.delete(callID)
      hand(
        TELL,
        payload("tool.execute.after", sessionID, {
          tool, call_id: callID, args, title, metadata: meta, output: cut(output)?.slice(0, 2000), took_ms,
        }),
      )
    }),
    "experimental.session.compacting": safe(async ({ sessionID }, output) => {
      const { context } = await ask(payload("session.compacting", sessionID, { at: Date.now() }))
      if (typeof context === "string" && context) output.context.push(context)
    }),
    dispose: safe(async () => {
      process.removeListener("exit", leaving)
      close()
      for (let turn = 0; turn < 20 && (busy || waiting.length); turn += 1)
        await new Promise((resolve) => setTimeout(resolve, PATIENCE / 20))
      leave()
    }),
  }
}
