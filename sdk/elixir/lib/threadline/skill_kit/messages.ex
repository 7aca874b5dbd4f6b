defmodule Threadline.SkillKit.Messages do
  @moduledoc false
  # SkillKit's structs as AG-UI messages, and back. What JSON does not bring back exactly (bytes that are no UTF-8, atoms,
  # integers that others read as floats) carries its Erlang term along.

  alias Threadline.SkillKit.Json

  # Looked up by name: this compiles without SkillKit.
  @types SkillKit.Types
  @roles %{
    "user" => "UserMessage",
    "system" => "SystemMessage",
    "assistant" => "AssistantMessage",
    "tool" => "ToolResult"
  }
  @exact 9_007_199_254_740_991

  @doc "A message as JSON."
  def encode(message) do
    members = members(message)
    text = Json.encode({:object, members})
    {:ok, value, _} = Json.decode(text)

    if exact?(members) and from_json(value) === message do
      text
    else
      term = message |> :erlang.term_to_binary() |> Base.encode64()
      Json.encode({:object, members ++ [{"term", term}]})
    end
  end

  defp members(%{__struct__: module} = message) do
    kind = module |> Module.split() |> List.last()
    own = [{"agent", Map.get(message, :agent)}]

    case kind do
      "UserMessage" ->
        [{"role", "user"}, {"content", message.content} | own]

      "SystemMessage" ->
        [{"role", "system"}, {"content", message.content} | own]

      "AssistantMessage" ->
        calls = for call <- message.tool_calls || [], do: call(call)

        [{"role", "assistant"}, {"content", message.content}] ++
          if(calls == [], do: [], else: [{"toolCalls", calls}]) ++ own

      "ToolResult" ->
        result = [{"toolCallId", Json.text(message.tool_call_id)}, {"content", Json.text(message.content)}]

        [{"role", "tool"}] ++
          result ++ [{"isError", message.is_error}, {"name", Map.get(message, :name)} | own]
    end
  end

  defp call(call) do
    function = {:object, [{"name", Json.text(call.name)}, {"arguments", Json.encode(call.input)}]}
    {:object, [{"id", Json.text(call.id)}, {"type", "function"}, {"function", function}]}
  end

  # Whoever reads JSON's numbers as floats is to read the same.
  defp exact?(value) when is_integer(value), do: value in -@exact..@exact
  defp exact?(%{} = map), do: map |> Map.to_list() |> exact?()
  defp exact?(list) when is_list(list), do: Enum.all?(list, &exact?/1)
  defp exact?({:object, members}), do: exact?(members)
  defp exact?({name, value}), do: exact?(name) and exact?(value)
  defp exact?(_), do: true

  @doc "The structs of stored messages. Activities and reasoning are nothing to SkillKit and are left out."
  def decode(stored) do
    if Code.ensure_loaded?(Module.concat(@types, "UserMessage")) do
      # Their names have to be known before terms are read.
      for name <- ["ToolCall" | Map.values(@roles)], do: Code.ensure_loaded(Module.concat(@types, name))
      {:ok, for({_, value} <- stored, message = from_term(value) || from_json(value), do: message)}
    else
      {:error, :skill_kit_missing}
    end
  end

  defp from_term(%{"term" => term}) do
    with {:ok, <<131, tag, _::binary>> = binary} when tag != 80 <- Base.decode64(term),
         # Makes no atoms and no funs: a term whose atoms this VM does not have is read from its JSON.
         %{__struct__: module} = message <- :erlang.binary_to_term(binary, [:safe]),
         true <- module in for({_, name} <- @roles, do: Module.concat(@types, name)) do
      message
    else
      _ -> nil
    end
  rescue
    ArgumentError -> nil
  end

  defp from_term(_), do: nil

  defp from_json(%{"role" => "developer"} = value), do: from_json(%{value | "role" => "system"})

  defp from_json(%{"role" => role} = value) when is_map_key(@roles, role) do
    fields = %{agent: value["agent"], content: value["content"]}

    more =
      case role do
        "assistant" -> %{tool_calls: for(call <- value["toolCalls"] || [], do: tool_call(call))}
        "tool" -> %{tool_call_id: value["toolCallId"], is_error: value["isError"], name: value["name"]}
        _ -> %{}
      end

    # What the struct of this release does not have is left out; what the message does not have stays as the struct has it.
    more =
      for {name, content} <- Map.merge(fields, more), name == :content or content != nil, do: {name, content}

    build(@roles[role], more)
  end

  defp from_json(_), do: nil

  defp tool_call(%{"id" => id, "function" => %{"name" => name, "arguments" => arguments}}) do
    input =
      case Json.decode(arguments) do
        {:ok, input, _} -> input
        _ -> arguments
      end

    build("ToolCall", id: id, name: name, input: input)
  end

  defp build(name, fields) do
    module = Module.concat(@types, name)
    if Code.ensure_loaded?(module), do: struct(module, fields)
  end

  @doc "The messages of an answer: each as it stands there, and its value."
  def split(body) do
    with {:ok, {:raw, raw}, _} <- Json.member(body, "messages"), {:ok, elements} <- Json.elements(raw) do
      {:ok, elements}
    else
      _ -> {:error, :not_understood}
    end
  end

  @doc "What is the same for a message however it was written, whether it has an id or not."
  def canonical(text) do
    case Json.decode(text) do
      {:ok, %{} = value, _} -> value |> Map.delete("id") |> drop_nil("content") |> Json.same_numbers()
      _ -> text
    end
  end

  # Threadline reads these as absent.
  defp drop_nil(map, name), do: if(Map.get(map, name) == nil, do: Map.delete(map, name), else: map)

  def parse(body) do
    case Json.decode(body) do
      {:ok, value, _} -> {:ok, value}
      error -> error
    end
  end

  def json(value), do: Json.encode(value)
end
