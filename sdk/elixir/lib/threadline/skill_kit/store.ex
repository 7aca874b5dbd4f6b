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
    * A save may be repeated, also one whose answer was lost. It adds nothing twice.
    * Nothing stored is lost by a save that did not know it. SkillKit starts with an empty list when a load fails; what it
      saves then is put behind what is stored. The same if somebody else has written meanwhile.
    * A list that its owner has changed (SkillKit puts `initial_messages` in front at each start) takes the place of the one
      that this process has loaded or saved last; what others have said since stays. Where others have changed that one too,
      nothing is taken away. Earlier versions stay in the thread's log.

  What a process has loaded and saved is remembered in its dictionary: SkillKit calls all of it from the agent's process.
  """

  if Code.ensure_loaded?(SkillKit.Conversation.Store), do: @behaviour(SkillKit.Conversation.Store)

  alias Threadline.SkillKit.{Http, Messages}
  require Logger

  @patience 15_000
  @tries 5

  # What this process knows of a conversation. `own`: hashes of the list that it has loaded or saved last. `apart`: that is not
  # all that is stored, so its list is not saved as it is. `pending`: of a save without an answer what would be stored then,
  # `own` then, and with how many of the first it counts as carried out.
  defstruct own: [], apart: false, pending: nil

  @doc "Saves the whole list of messages."
  @spec save(String.t(), [struct()], keyword()) :: :ok | {:error, term()}
  def save(id, messages, config) do
    safely(id, config, fn request ->
      drafts = Enum.map(messages, &Messages.encode/1)
      own = Enum.map(drafts, &hash/1)
      known = known(request)

      # A list that was changed is one that Threadline refuses, or takes for a save that came late.
      if not known.apart and List.starts_with?(own, known.own),
        do: put_list(request, drafts, own, known),
        else: merge(request, drafts, own, known, @tries)
    end)
  end

  @doc "The messages that are stored, `[]` if there are none."
  @spec load(String.t(), keyword()) :: {:ok, [struct()]} | {:error, term()}
  def load(id, config) do
    result =
      safely(id, config, fn request ->
        with {:ok, stored, _} <- stored(request),
             {:ok, messages} <- Messages.decode(stored) do
          remember(request, %__MODULE__{own: Enum.map(messages, &hash(Messages.encode(&1)))})
          {:ok, messages}
        end
      end)

    # Whoever goes on with an empty list now does not know what is stored.
    with {:error, _} <- result, do: remember(request(id, config), %__MODULE__{apart: true})

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
  defp put_list(request, drafts, own, known) do
    remember(request, %{known | pending: {own, own, length(known.own)}})

    case put(request, drafts) do
      {:ok, _} ->
        remember(request, %__MODULE__{own: own})
        :ok

      {:diverged, _} ->
        remember(request, known)
        merge(request, drafts, own, known, @tries)

      error ->
        error
    end
  end

  # Into what is stored, which is read first: without what this list has no more, and with what it has new behind it.
  defp merge(_request, _drafts, _own, _known, 0), do: {:error, :conflict}

  defp merge(request, drafts, own, known, tries) do
    with {:ok, stored, etag} <- stored(request) do
      known = carried_out(known, Enum.map(stored, fn {raw, _} -> hash(raw) end))
      # Nothing is stored any more: all of it is new.
      known = if etag, do: known, else: %{known | own: []}
      kept = in_common(known.own, own)
      whole = without(stored, Enum.drop(known.own, kept)) ++ Enum.drop(drafts, kept)
      hashes = Enum.map(whole, &hash/1)
      remember(request, %{known | pending: {hashes, own, length(hashes)}})
      condition = if etag, do: {"if-match", etag}, else: {"if-none-match", "*"}

      case put(request, whole, condition) do
        {:ok, _} ->
          remember(request, %__MODULE__{own: own, apart: hashes != own})
          :ok

        {result, _} when result in [:changed, :diverged] ->
          remember(request, known)
          merge(request, drafts, own, known, tries - 1)

        error ->
          error
      end
    end
  end

  # The answer to the last save was lost: was it carried out? A list that was saved as it is may be there in part, from a
  # shorter save before, or with the words of others behind that.
  defp carried_out(%{pending: {whole, own, least}} = known, stored) do
    common = in_common(whole, stored)
    if common >= least, do: %{known | own: Enum.drop(own, common - length(whole)), pending: nil}, else: known
  end

  defp carried_out(known, _stored), do: known

  # What this process has loaded or said, and its owner has taken out. Where it is not there as it was, somebody else has
  # changed the list: nothing is taken away then.
  defp without(stored, gone) do
    {left, missing} =
      List.foldr(stored, {[], Enum.reverse(gone)}, fn
        {raw, _}, {left, []} ->
          {[raw | left], []}

        {raw, _} = message, {left, [last | gone]} ->
          if loaded(message) == last, do: {left, gone}, else: {[raw | left], [last | gone]}
      end)

    if missing == [], do: left, else: Enum.map(stored, fn {raw, _} -> raw end)
  end

  # The hash that a stored message has in a list that was loaded.
  defp loaded(message) do
    with {:ok, [message]} <- Messages.decode([message]), do: hash(Messages.encode(message))
  end

  defp in_common(one, other) do
    one |> Enum.zip(other) |> Enum.take_while(fn {one, other} -> one == other end) |> length()
  end

  # Of the value, not of the text: what comes back has an id, and another order of members.
  defp hash(draft), do: draft |> Messages.canonical() |> :erlang.term_to_binary() |> :erlang.md5()

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
