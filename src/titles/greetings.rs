//! Tables of words and phrases in many languages. A table is a text: a phrase ends at a bar or at the end of a line.

/// Phrases of a table.
pub(super) fn of(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.split(['|', '\n']).map(str::trim).filter(|phrase| !phrase.is_empty())
}

/// Greetings at the start of a conversation, before its subject. A greeting with a comma has another meaning elsewhere,
/// and counts only in front of punctuation or at the end.
pub(super) const GREETINGS: &str = "
    hi | hello | hey | hiya | yo | howdy | greetings | good morning | good afternoon | good evening | good day
    morning, | afternoon, | evening,
    hallo | moin | moin moin | servus | grüß gott | grüezi | guten tag | guten morgen | guten abend | tag, | morgen, | abend,
    bonjour | bonsoir | salut | coucou | hola | buenos días | buen día | buenas tardes | buenas noches | buenas,
    ciao | salve | buongiorno | buonasera | olá | oi | bom dia | boa tarde | boa noite | bon dia | bună | bună ziua
    hoi | goedemorgen | goedemiddag | goedenavond | goedendag | hej | hei | hejsan | god morgon | god morgen | god dag
    goddag | moi | terve | tere | labas | sveiki | cześć | witam | dzień dobry | ahoj | dobrý den | szia | sziasztok
    helló | jó napot | zdravo | dobar dan | γεια | γειά | γεια σου | γεια σας | καλημέρα | καλησπέρα | χαίρετε
    merhaba | merhabalar | selam | selamlar | günaydın | iyi günler | iyi akşamlar | привет | здравствуй | здравствуйте
    добрый день | доброе утро | добрый вечер | привіт | вітаю | добрий день | здравей | здравейте | здраво
    مرحبا | مرحباً | أهلا | أهلاً | السلام عليكم | سلام | שלום | היי | नमस्ते | नमस्कार | নমস্কার | வணக்கம்
    halo | hai | selamat pagi | selamat siang | selamat sore | selamat malam | xin chào | chào bạn | kumusta | jambo
    สวัสดี | สวัสดีครับ | สวัสดีค่ะ | สวัสดีคะ | หวัดดี | 안녕 | 안녕하세요 | 안녕하십니까
    こんにちは | こんばんは | おはよう | おはようございます | はじめまして | もしもし | ハロー
    你好 | 您好 | 你们好 | 你們好 | 大家好 | 早上好 | 下午好 | 晚上好 | 早安 | 嗨 | 哈喽 | 哈囉
";

/// Addressees of a greeting, directly after it.
pub(super) const GREETED: &str = "
    there | all | everyone | everybody | team | folks | zusammen | alle | à tous | a todos | a tutti | a todas | allemaal
    herkese | σε όλους | всем | wszystkim
";

/// Words with which a sentence starts after a greeting without punctuation. Other words may belong to it: Hello Kitty.
pub(super) const BEHIND_GREETINGS: &str = "
    how | what | what's | where | when | why | who | which | i | i'm | i've | is | are | do | does | did | should | we | my
    wie | was | wo | wann | warum | wer | welche | ich | wir | mein | meine | comment | quel | quelle | pourquoi | où | je
    qué | cómo | cuál | dónde | por qué | mi | come | cosa | dove | perché | como | o que | qual | onde | eu | hoe | wat
    waar | waarom | ik | jag | hur | vad | как | что | где | почему | я | πώς | τι | nasıl | ne | neden | ben
";

/// Introductions of a request.
pub(super) const REQUESTS: &str = "
    please | can you please | could you please | would you please | can you | could you | would you
    help me to | help me with | help me | help with | i want you to | i want to | i would like you to
    i would like to | i'd like you to | i'd like to | i need you to | i need to | i need help with | i need
    i am trying to | i'm trying to | tell me | explain to me | ok | okay | bitte | kannst du mir
    kannst du | könntest du mir | könntest du | können sie mir | können sie | könnten sie mir | könnten sie
    hilf mir dabei | hilf mir bei | hilf mir | ich möchte | ich will | ich würde gerne | ich brauche | s'il te plaît
    s'il vous plaît | peux-tu | pourrais-tu | pouvez-vous | pourriez-vous | aide-moi à | aidez-moi à | je veux
    je voudrais | j'aimerais | por favor | puedes | podrías | ayúdame a | quiero | quisiera | me gustaría | necesito
    请你帮我 | 请帮我 | 请问 | 請幫我 | 請問 | 帮我 | 幫我
";

/// Words that end a name only because it was cut there: English, German, French, Spanish, Italian, Portuguese, Dutch.
pub(super) const DANGLING: &str = "
    a | about | an | and | are | as | at | be | but | by | can | for | from | her | his | how | i | if | in | into
    is | it | its | me | my | of | on | or | our | that | the | their | this | to | was | we | what | when | which
    who | with | you | your | am | auf | aus | bei | das | dein | deine | dem | den | der | des | die | ein | eine
    einem | einen | einer | es | für | ich | im | ist | mein | meine | meinen | meiner | mit | nach | oder | sind
    und | von | vom | wie | zu | zum | zur | au | aux | avec | dans | de | du | en | et | la | le | les | ma | mes
    mon | ou | par | pour | sur | un | une | à | al | con | da | del | della | di | do | dos | e | el | em | il
    las | lo | los | mi | na | no | o | os | para | per | por | y | una | um | uma | een | het | naar | op | te
    van | voor
";

/// First words of answers that are refusals, excuses or errors.
pub(super) const REFUSALS: &str = "
    i'm sorry | i am sorry | sorry, | sorry but | sorry, but | sorry.  | i apologize | i apologise | apologies
    my apologies | unfortunately | i can't | i cannot | i can not | i could not | i couldn't | i'm unable
    i am unable | i'm not able | i am not able | i won't | i will not | i'm afraid | i am afraid | i don't
    i do not | i must decline | as an ai | as a language model | as a large language model | i'm an ai | i am an ai
    i'm just | cannot comply | can't comply | can't assist | cannot assist | content policy | request denied
    error: | internal server error | es tut mir leid | tut mir leid | entschuldigung | leider kann | leider ist
    ich kann nicht | ich kann das nicht | ich kann dir nicht | ich kann ihnen nicht | als ki | als sprachmodell
    je suis désolé | désolé | je ne peux pas | je ne suis pas en mesure | lo siento | no puedo | mi dispiace
    non posso | sinto muito | desculpe | não posso | het spijt me | ik kan niet | извините | простите | к сожалению
    я не могу | 申し訳 | すみません | ごめんなさい | お手伝いできません | 抱歉 | 很抱歉 | 对不起 | 對不起 | 我不能 | 我无法 | 我無法 | 죄송합니다 | 죄송하지만 | ขออภัย | ขอโทษ
";

/// First words of answers about the task, the conversation as such, or the user.
pub(super) const ABOUT: &str = "
    the user | user asks | user wants | this conversation | the conversation | this chat | here is | here's
    here are | how can i | how may i | what would you | let me know | you are | thank you for
";

/// Complete answers that would fit every conversation; letters and digits only.
pub(super) const GENERIC: &str = "
    untitled | title | name | newchat | chat | newconversation | conversation | conversationname | conversationtitle
    threadname | threadtitle | chattitle | newthread | thread | none | null | nil | na | undefined | unknown | nan
    true | false | ok | okay | yes | no | sure | certainly | ofcourse | done | string | text | assistant | user
    object | objectobject | helloworld | ohnetitel | titel | unbekannt | sanstitre | titre | sintítulo | título | 無題
    无题 | タイトル | 标题 | 標題
";

/// Labels that models put in front of a name.
pub(super) const LABELS: &str = "
    conversation title | conversation name | thread title | thread name | chat title | chat name | suggested title
    suggested name | possible title | short title | final answer | the name | the title | title | name | answer
    output | result | assistant | ai | model | subject | topic | titel | name des gesprächs | thema | titre | nom | título | nombre | titolo
    nome | タイトル | 題名 | スレッド名 | 标题 | 標題 | 名称 | 제목 | название | заголовок | ชื่อ
";

/// Announcements of a name by models, in front of a colon.
pub(super) const ANNOUNCEMENTS: &str = "
    here is | here's | here are | here you go | this is | how about | i suggest | i would suggest | i'd suggest
    my suggestion | a good title | a good name | a possible title | a possible name | a short title | a short name
    hier ist | hier ein | mein vorschlag | voici | je propose | aquí tienes | aquí está | ecco | aqui está
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_as_they_are_compared() {
        for table in
            [GREETINGS, GREETED, BEHIND_GREETINGS, REQUESTS, DANGLING, REFUSALS, ABOUT, ANNOUNCEMENTS, GENERIC, LABELS]
        {
            assert!(of(table).count() > 10);
            assert!(of(table).all(|phrase| phrase == phrase.to_lowercase() && !phrase.contains('’')));
        }
        assert!(of(GENERIC).all(|answer| answer.chars().all(char::is_alphanumeric)));
    }
}
