defmodule Threadline.SkillKit.Store do
  @moduledoc """
  A `SkillKit.Conversation.Store` that keeps conversations in Threadline.

      SkillKit.start_agent(definition,
        caller: self(),
        conversation_store: {Threadline.SkillKit.Store, url: "https://threads.example", api_key: key, user: "ann"}
      )

  Options:

    * `:url` - where Threadline is. Needed.
    * `:api_key` - an API key or a user's token.
    * `:user` - the user whose threads they are; needed with a key that is for a whole project.
    * `:prefix` - stands before every agent's name, since names are not unique across tenants. Default `""`.
    * `:agent_id` - Threadline's name for the agent, noted with what is saved.
    * `:cacertfile` - certificates to trust instead of the system's. TLS is always verified.

  What is promised:

    * No callback raises, and none takes much longer than 15 seconds. A failure is `{:error, reason}`, and logged once.
    * What `load/2` gives is `===` what was given to `save/3`, in whichever VM.
    * A save may be repeated. It adds nothing twice.
    * Nothing stored is lost by a save that did not know it. SkillKit starts with an empty list when a load fails; what it
      saves then is put behind what is stored. The same if somebody else has written meanwhile.
    * A list that its owner has changed (SkillKit puts `initial_messages` in front at each start) takes the place of the one
      that this process has loaded or saved last. Earlier versions stay in the thread's log.

  What a process has loaded and saved is remembered in its dictionary: SkillKit calls all of it from the agent's process.
  """

  if Code.ensure_loaded?(SkillKit.Conversation.Store), do: @behaviour(SkillKit.Conversation.Store)

  alias Threadline.SkillKit.{Http, Messages}
  require Logger

  @patience 15_000
  @tries 5

  # What this process knows of a conversation. `count` messages of its list, with this `digest`, are stored. `etag` is the
  # version that was loaded or saved last. `apart`: more is stored than its list has, so the list is not saved as it is.
  # `pending`: a save without an answer; if that many messages with that digest are stored, it was carried out.
  defstruct etag: nil, count: 0, digest: nil, apart: false, pending: nil

  @doc "Saves the whole list of messages."
  @spec save(String.t(), [struct()], keyword()) :: :ok | {:error, term()}
  def save(id, messages, config) do
    safely(id, config, fn request ->
      drafts = Enum.map(messages, &Messages.encode/1)

      case known(request) do
        %{apart: true} = known -> add(request, drafts, known, @tries)
        known -> put_list(request, drafts, known)
      end
    end)
  end

  @doc "The messages that are stored, `[]` if there are none."
  @spec load(String.t(), keyword()) :: {:ok, [struct()]} | {:error, term()}
  def load(id, config) do
    result =
      safely(id, config, fn request ->
        with {:ok, stored, etag} <- stored(request),
             {:ok, messages} <- Messages.decode(stored) do
          drafts = Enum.map(messages, &Messages.encode/1)
          remember(request, %__MODULE__{etag: etag, count: length(drafts), digest: digest(drafts)})
          {:ok, messages}
        end
      end)

    # Whoever goes on with an empty list now does not know what is stored.
    with {:error, _} <- result,
         do: remember(request(id, config), %__MODULE__{digest: digest([]), apart: true})

    result
  end

  @doc "Deletes a conversation, and its thread."
  @spec delete(String.t(), keyword()) :: :ok | {:error, term()}
  def delete(id, config) do
    safely(id, config, fn request ->
      case Http.call(request, :delete) do
        {:ok, status, _, _} when status in [204, 404] ->
          Process.delete(key(request))
          :ok

        other ->
          failure(other)
      end
    end)
  end

  # As it is: Threadline appends what is new, and refuses what would lose something.
  defp put_list(request, drafts, known) do
    case put(request, drafts) do
      {:ok, etag} ->
        remember(request, saved(drafts, etag, false))
        :ok

      {:diverged, etag} ->
        cond do
          extends?(drafts, known) -> add(request, drafts, known, @tries)
          known.etag == etag -> replace(request, drafts, known, etag)
          true -> add(request, drafts, %{known | count: 0}, @tries)
        end

      error ->
        error
    end
  end

  # The list that it takes the place of is the one that this process knows.
  defp replace(request, drafts, known, etag) do
    case put(request, drafts, {"if-match", etag}) do
      {:ok, etag} ->
        remember(request, saved(drafts, etag, false))
        :ok

      {:changed, _} ->
        add(request, drafts, %{known | count: 0}, @tries)

      {:diverged, _} ->
        {:error, :conflict}

      error ->
        error
    end
  end

  # Behind what is stored, which is read first.
  defp add(_request, _drafts, _known, 0), do: {:error, :conflict}

  defp add(request, drafts, known, tries) do
    with {:ok, stored, etag} <- stored(request) do
      raw = Enum.map(stored, fn {raw, _} -> raw end)
      known = carried_out(known, raw)

      # What is not the list that it was with more behind it is all new; so is all of it if nothing is stored any more.
      new = if etag != nil and extends?(drafts, known), do: Enum.drop(drafts, known.count), else: drafts
      whole = raw ++ new
      pending = {length(whole), digest(whole), length(drafts), digest(drafts)}
      remember(request, %{known | apart: true, pending: pending})
      condition = if etag, do: {"if-match", etag}, else: {"if-none-match", "*"}

      case put(request, whole, condition) do
        {:ok, etag} ->
          remember(request, saved(drafts, etag, stored != []))
          :ok

        {result, _} when result in [:changed, :diverged] ->
          remember(request, %{known | apart: true})
          add(request, drafts, known, tries - 1)

        error ->
          error
      end
    end
  end

  # The answer to the last save was lost: was it carried out?
  defp carried_out(%{pending: {length, digest, count, own}} = known, raw) do
    if length(raw) >= length and same?(Enum.take(raw, length), digest) do
      %{known | count: count, digest: own, pending: nil}
    else
      %{known | pending: nil}
    end
  end

  defp carried_out(known, _raw), do: known

  defp same?(raw, digest), do: digest(raw) == digest

  defp saved(drafts, etag, apart) do
    %__MODULE__{etag: etag, count: length(drafts), digest: digest(drafts), apart: apart}
  end

  defp extends?(drafts, known) do
    length(drafts) >= known.count and digest(Enum.take(drafts, known.count)) == (known.digest || digest([]))
  end

  # Of the values, not of the texts: what comes back has an id, and another order of members.
  defp digest(drafts),
    do: drafts |> Enum.map(&Messages.canonical/1) |> :erlang.term_to_binary() |> :erlang.md5()

  defp stored(request) do
    case Http.call(request, :get) do
      {:ok, 200, headers, body} ->
        with {:ok, stored} <- Messages.split(body), do: {:ok, stored, headers["etag"]}

      {:ok, 404, _, _} ->
        {:ok, [], nil}

      other ->
        failure(other)
    end
  end

  defp put(request, drafts, condition \\ nil) do
    agent = if id = request.config[:agent_id], do: [~s("agentId":), Messages.json(id), ?,], else: []
    body = IO.iodata_to_binary([?{, agent, ~s("messages":[), Enum.intersperse(drafts, ?,), "]}"])

    case Http.call(request, :put, body, List.wrap(condition)) do
      {:ok, status, headers, _} when status in [200, 201] -> {:ok, headers["etag"]}
      {:ok, 409, _, body} = answer -> refused(:diverged, "conversation-diverged", body, answer)
      {:ok, 412, _, body} = answer -> refused(:changed, "conversation-changed", body, answer)
      other -> failure(other)
    end
  end

  defp refused(result, slug, body, answer) do
    case Messages.parse(body) do
      {:ok, %{"type" => "/problems/" <> ^slug, "etag" => etag}} -> {result, etag}
      _ -> failure(answer)
    end
  end

  defp failure({:ok, status, _, body}) do
    case Messages.parse(body) do
      {:ok, %{"type" => "/problems/" <> slug} = problem} -> {:error, {status, slug, problem["detail"]}}
      _ -> {:error, {status, "unknown", "not an answer of Threadline"}}
    end
  end

  defp failure({:error, reason}), do: {:error, reason}

  defp request(id, config) do
    config = if is_list(config), do: config, else: []
    name = "#{config[:prefix]}#{id}"
    path = "/v1/conversations/" <> URI.encode(name, &URI.char_unreserved?/1)
    url = config[:url] |> to_string() |> String.trim_trailing("/")
    %{url: url <> path, config: config, deadline: System.monotonic_time(:millisecond) + @patience}
  end

  defp key(request), do: {__MODULE__, request.url, request.config[:user]}
  defp known(request), do: Process.get(key(request), %__MODULE__{})
  defp remember(request, known), do: Process.put(key(request), known)

  defp safely(id, config, work) do
    result =
      try do
        work.(request(id, config))
      rescue
        error -> {:error, error}
      catch
        kind, reason -> {:error, {kind, reason}}
      end

    # Once, until it works again.
    key = {__MODULE__, :failing, id}

    case result do
      {:error, reason} ->
        unless Process.put(key, true),
          do: Logger.warning("Threadline: conversation #{inspect(id)}: #{inspect(reason)}")

      _ ->
        Process.delete(key)
    end

    result
  end
end
